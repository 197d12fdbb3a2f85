// F28: the approver sees everything, as it is. Guards against what is cut, pushed out of sight, hidden in a text, or named as
// something else than it is.
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { desktop, openBrowser, person, phone, until } from "./house/browser.js";
import { startModel } from "./house/model.js";
import { hands } from "./house/scenes.js";
import { start } from "./house/server.js";

let browser, server, model, args;
before(async () => {
  browser = await openBrowser();
  model = await startModel(({ text, declared }) =>
    (text === "act" ? [{ functionCall: { name: declared.find((name) => name.includes("act")), args } }] : [{ text: "That is what came of it." }]));
  server = await start({
    environment: model.environment,
    files: {
      "plain.json": JSON.stringify({ info: { name: "plain", version: "1" }, tools: [{ name: "act", title: "Look at the weather", inputSchema: { type: "object" } }], answers: { act: { result: { content: [{ type: "text", text: "done" }] } } } }),
      "policy_rules.yaml": JSON.stringify({ version: 1, tiers: [{ server: "plain", tool: "act", tier: "moderate" }], rules: [{ id: "acts-are-held", kind: "require_approval", match: { server: "plain" } }] }),
      "mcp_servers.json": JSON.stringify({ mcpServers: { plain: { command: process.execPath, args: [join(dirname(fileURLToPath(import.meta.url)), "house/mcp.js"), "plain.json"] } } }),
    },
  });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await model?.stop();
});

const harmless = "nothing to see here ".repeat(250);
for (const [what, given, shown, { marks = [], boxes = 0, warned = true } = {}] of [
  ["5,000 characters, then the target", { body: `${harmless}DELETE-EVERYTHING` }, ["DELETE-EVERYTHING", "5,017 characters"], { boxes: 1, warned: false }],
  ["300 line ends, then a line", { body: `hello${"\n".repeat(300)}DELETE-EVERYTHING` }, ["DELETE-EVERYTHING"]],
  ["the direction of writing turned", { path: "report\u202Etxt.exe" }, ["exe"], { marks: ["RLO"] }],
  ["characters without a width", { path: "pay\u200Bpal\u2060.txt\uFEFF" }, ["pal"], { marks: ["ZWSP"] }],
  ["tag characters", { body: `fine${[..."rm -rf"].map((c) => String.fromCodePoint(0xE0000 + c.charCodeAt(0))).join("")}` }, ["fine"], { marks: ["hidden: rm -rf"] }],
  ["a Cyrillic letter", { path: "p\u0430ypal.txt" }, ["ypal.txt"], { marks: ["\u0430"] }],
  ["control characters", { body: "a\u0000b\tc\u001b[31md" }, ["b"], { marks: ["NUL", "ESC"] }],
  ["twin keys", { path: "safe.txt", "path\u200B": "/etc/shadow" }, ["safe.txt", "/etc/shadow"], { marks: ["ZWSP"] }],
  ["200,000 characters", { body: `${"x y ".repeat(49_996)}DELETE-EVERYTHING` }, ["DELETE-EVERYTHING", "characters"], { boxes: 1, warned: false }],
  ["a destination that stands last", { a: "1", b: "2", note: "x", zone: "y", recipient: "ana@example.org" }, ["ana@example.org"], { warned: false }],
]) {
  for (const [size, view] of [["phone", phone], ["desktop", desktop]]) {
    test(`f28: ${what}, ${size}`, async () => {
      args = given;
      const someone = await person(browser, server, { view });
      await someone.page.goto(`${server.url}/sign-in`);
      const { page } = someone;
      await someone.context.addCookies(await cookies());
      const does = hands(someone, server);
      const chat = await does.begin("act");
      const held = await does.held(chat);
      for (const path of ["/approvals", chat, `/approvals/${held.approval}`]) {
        await page.goto(server.url + path);
        if (await page.locator("#live").count()) await until(page, async () => await page.locator("#live").innerText() === "Live");
        const card = page.locator(`#approval-${held.approval}`);
        // Before anything is opened: the true names, the end of each text, its length.
        const text = await card.innerText();
        assert.match(text, /plain\/act/);
        assert.match(text, /Calls itself\s*“Look at the weather”/, "the title is an extra");
        for (const word of shown) assert(text.includes(word), `${word} is not seen at ${path}:\n${text.slice(0, 2000)}`);
        const seen = await card.locator("mark.unseen").evaluateAll((all) => all.map((one) => one.textContent));
        for (const mark of marks) assert(seen.includes(mark), `no mark ${mark} among ${seen}`);
        assert.equal(await card.getByText("Read this twice").count(), warned ? 1 : 0, "the warning");
        const raw = await card.evaluate((node) => node.textContent);
        assert.doesNotMatch(raw, /[\u202A-\u202E\u2066-\u2069\u200B-\u200F\u2060\uFEFF\u0000\u001B]|[\u{E0000}-\u{E007F}]/u, "hidden characters reach the page");
        if (given.recipient) assert.equal((await card.locator(".args dt").first().innerText()).trim(), "recipient");
        // All of it is above the button and inside the screen, without scrolling sideways.
        const button = card.getByRole("button", { name: "Approve once" });
        const at = await button.evaluate((node) => node.getBoundingClientRect().top);
        for (const box of await card.locator(".args dd").evaluateAll((all) => all.map((one) => { const { right, bottom } = one.getBoundingClientRect(); return { right, bottom }; }))) {
          assert(box.bottom <= at && box.right <= view.width, `an argument is out of sight at ${path}`);
        }
        // What is folded must be opened, and said to be read, before a yes goes anywhere.
        assert.equal(await card.locator("input[type=checkbox][required]").count(), boxes);
        if (boxes > 0) {
          await button.click();
          assert.equal(await card.locator("input:invalid").count(), 1, "the form asks for the tick");
          assert.equal(await card.getAttribute("data-state"), "pending");
          await card.locator("details.args__more summary").click();
          assert.equal((await card.locator(".args__value").evaluateAll((all) => all.map((one) => one.innerText).join(""))).replace(/\s+/g, "").length, given.body.replace(/\s+/g, "").length, "opened, all of it is there");
        }
      }
      await does.answer("deny", held);
      await does.idle(chat);
      await someone.close();
    });
  }
}

let kept;
async function cookies() {
  if (!kept) {
    const first = await person(browser, server);
    await first.signIn();
    kept = await first.context.cookies();
    await until(first.page, async () => { await first.page.goto(`${server.url}/tools?server=plain`); return first.page.locator("#catalogue tbody tr").count(); });
    await first.close();
  }
  return kept;
}
