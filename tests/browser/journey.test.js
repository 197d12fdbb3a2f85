// The main path: the printed link, a chat with the demo model, a held write approved in the page, its content read back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { desktop, openBrowser, person, phone, until } from "./house/browser.js";
import { start } from "./house/server.js";

let browser;
before(async () => { browser = await openBrowser(); });
after(() => browser?.close());

for (const script of [true, false]) {
  for (const [size, view] of [["phone", phone], ["desktop", desktop]]) {
    test(`${script ? "with" : "without"} JavaScript, ${size}: sign in, chat, approve, read back`, async () => {
      const server = await start();
      const someone = await person(browser, server, { script, view });
      const { page } = someone;
      try {
        await someone.signIn();
        const seen = (check) => until(page, check, { reload: !script });
        const states = () => page.locator("#transcript li[data-state]").evaluateAll((all) => all.map((one) => one.dataset.state));
        const say = async (text) => {
          await page.getByLabel("Message to the agent").fill(text);
          await page.getByRole("button", { name: "Send" }).click();
        };
        const idle = () => page.locator("#turn-state[data-turn=idle]").count();

        await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Agent" }).click();
        await say("write notes.txt: the sluice is open");
        await seen(async () => (await states()).join() === "pending");
        await assert.rejects(server.file("sandbox/notes.txt"), "it ran before anybody said yes");
        const card = page.locator("article.approval");
        assert.match(await card.innerText(), /notes\.txt[\s\S]*the sluice is open/);

        await card.getByRole("button", { name: "Approve once" }).click();
        await seen(async () => (await states()).join() === "completed" && await idle());
        assert.equal(await server.file("sandbox/notes.txt"), "the sluice is open");

        await say("read notes.txt");
        await seen(async () => (await states()).join() === "completed,completed" && await idle());
        assert.match(await page.locator("#transcript .msg").last().innerText(), /the sluice is open/);
        assert.equal(await page.getByLabel("Message to the agent").inputValue(), "", "what was sent is gone from the box");
      } finally {
        await someone.close();
        await server.stop();
      }
    });
  }
}
