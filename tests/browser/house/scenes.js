// Things that have happened, so that pages have something to show; and the list of every page.
import assert from "node:assert/strict";

const patience = 20_000;

/** What someone does by the forms of the pages, without opening them: with the session of their browser. */
export function hands(someone, server) {
  const { request } = someone.context;
  const post = (path, form) => request.post(server.url + path, { form, maxRedirects: 0 });
  const read = async (path) => (await request.get(server.url + path)).text();
  return {
    read,
    post,
    /** Begins a conversation and gives its address. */
    async begin(text) {
      const answer = await post("/agent", { text });
      assert.equal(answer.status(), 303, await answer.text());
      return answer.headers().location;
    },
    /** Says something in it, and waits until the turn is over. */
    async say(conversation, text) {
      await this.idle(conversation);
      const answer = await post(`${conversation}/messages`, { text });
      assert.equal(answer.status(), 303, await answer.text());
    },
    idle: (conversation) => reads(() => read(conversation), /data-turn="idle"/),
    /** The held call of a conversation: its approval, its call, and the version to answer. */
    async held(conversation) {
      const page = await reads(() => read(conversation), /data-approval="[^"]+"/);
      const [, call] = /<article[^>]*data-call="([^"]+)"/.exec(page);
      const [, approval] = /data-approval="([^"]+)"/.exec(page);
      const [, version] = /name="version" value="(\d+)"/.exec(page);
      return { call, approval, version };
    },
    /** Answers it; `boxes` are the names of what is ticked. */
    async answer(verdict, { approval, version }, { reason, boxes = [] } = {}) {
      const ticked = Object.fromEntries(boxes.map((name) => [name, "yes"]));
      const answer = await post(`/approvals/${approval}/${verdict}`, { version, ...(reason && { reason }), ...ticked });
      assert.equal(answer.status(), 303, await answer.text());
    },
  };
}

/** Opens a page; those of signing in as somebody who is not signed in. */
export async function open(someone, server, { name, path }) {
  if (name.startsWith("sign-in")) await someone.context.clearCookies();
  await someone.page.goto(server.url + path);
}

async function reads(read, sign) {
  const end = Date.now() + patience;
  for (;;) {
    const page = await read();
    if (sign.test(page)) return page;
    assert(Date.now() < end, `${sign} never stood in\n${page}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/**
 * A working day: calls that ran, were denied by a rule, by nobody's rule and by a person, two that wait, and a policy that
 * was edited. Gives every page with a name and an address.
 */
export async function workingDay(someone, server) {
  const does = hands(someone, server);
  const first = await does.begin("write notes.txt: Buy oat milk. The sluice is open until six.");
  const approved = await does.held(first);
  await does.answer("approve", approved);
  for (const text of ["read notes.txt", "list the files", "delete notes.txt", "move notes.txt to old.txt"]) {
    await does.say(first, text);
  }
  await does.idle(first);
  const second = await does.begin("write plan.md: Ship on Friday");
  await does.answer("deny", await does.held(second), { reason: "Fridays are frozen; write it for Monday" });
  await does.idle(second);
  const third = await does.begin("write report.txt: Total 1,204. Sent to p\u0430ypal.example\u200b, see \u202ereport.exe");
  const waiting = await does.held(third);
  const fourth = await does.begin(`write minutes.txt: ${"Everybody agreed with everything. ".repeat(200)}`);
  await does.held(fourth);
  await does.post("/settings/keys", { name: "laptop-claude", safe: "yes", moderate: "yes" });
  const edited = await does.post("/policies/reads-are-free/enabled", { enabled: "false", revision: "1" });
  assert(edited.status() < 400, await edited.text());
  return [
    ["overview", "/"],
    ["agent-list", "/agent"],
    ["agent-new", "/agent?new="],
    ["agent", first],
    ["agent-denied", second],
    ["agent-held", third],
    ["approvals", "/approvals"],
    ["approval", `/approvals/${waiting.approval}`],
    ["approval-decided", `/approvals/${approved.approval}`],
    ["policies", "/policies"],
    ["policies-try", "/policies/try"],
    ["policy-new", "/policies/new"],
    ["policy", "/policies/writes-stay-inside"],
    ["policy-delete", "/policies/writes-stay-inside/delete"],
    ["policy-history", "/policies/history"],
    ["policy-revision", "/policies/history/2"],
    ["policy-restore", "/policies/history/1/restore"],
    ["policy-tiers", "/policies/tiers"],
    ["policy-import", "/policies/import"],
    ["audit", "/audit"],
    ["audit-none", "/audit?tool=nothing"],
    ["audit-events", "/audit/events"],
    ["audit-call", `/audit/calls/${approved.call}`],
    ["tools", "/tools"],
    ["tools-absent", "/tools?server=context7"],
    ["settings", "/settings"],
    ["not-found", "/nowhere"],
    ["sign-in", "/sign-in?token=example"],
    ["sign-in-help", "/sign-in"],
  ].map(([name, path]) => ({ name, path }));
}
