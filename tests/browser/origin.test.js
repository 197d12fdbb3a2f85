// F18: a web page in the operator's browser is not the operator. Guards against pages of other origins, with and without
// the same site, that send forms, open frames and streams, or load addresses that would change something.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { openBrowser, person, until } from "./house/browser.js";
import { hands } from "./house/scenes.js";
import { start } from "./house/server.js";

let browser, server, someone, elsewhere, served = "";
before(async () => {
  browser = await openBrowser();
  server = await start();
  someone = await person(browser, server, { expected: [/./] });
  await someone.signIn();
  elsewhere = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end(served));
  await new Promise((done) => elsewhere.listen(0, done));
});
after(async () => {
  await someone?.context.close();
  await browser?.close();
  await server?.stop();
  elsewhere?.close();
});

// `127.0.0.1` on another port is the same site, so that its requests carry the cookie; `localhost` is another site.
for (const name of ["127.0.0.1", "localhost"]) {
  test(`f18: a page at ${name} cannot approve, cannot read and cannot frame`, async () => {
    const does = hands(someone, server);
    const held = await does.held(await does.begin(`write ${name}.txt: foreign`));
    const { page } = someone;
    const approve = `${server.url}/approvals/${held.approval}/approve`;
    const answers = [];
    page.context().on("response", (response) => {
      if (response.url().startsWith(server.url) && response.frame()?.page() === page) answers.push([response.request().method(), new URL(response.url()).pathname, response.status()]);
    });
    const visit = async (html) => {
      served = html;
      await page.goto(`http://${name}:${elsewhere.address().port}/`);
    };
    const fields = `<input name=version value=${held.version}>`;
    for (const kind of ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"]) {
      await visit(`<form method=post action="${approve}" enctype="${kind}">${fields}<button>go</button></form>`);
      await page.getByRole("button").click();
      await page.waitForURL(approve);
      assert.deepEqual(answers.findLast(([method]) => method === "POST"), ["POST", new URL(approve).pathname, 403], kind);
    }
    await visit(`<iframe sandbox="allow-forms allow-scripts" srcdoc='<form method=post action="${approve}">${fields}</form><script>document.forms[0].submit()</script>'></iframe><img src="${approve}"><link rel=prefetch href="${approve}"><iframe src="${server.url}/approvals"></iframe>`);
    const told = await page.evaluate(async ([url, approve, version]) => {
      const attempt = (promise) => promise.then(async (answer) => `${answer.type} ${await answer.text()}`, (error) => error.name);
      const stream = new Promise((done) => {
        const source = new EventSource(`${url}/events`, { withCredentials: true });
        source.onmessage = () => done("read");
        source.onerror = () => { source.close(); done("refused"); };
      });
      return {
        page: await attempt(fetch(`${url}/approvals`, { credentials: "include" })),
        blind: await attempt(fetch(approve, { method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({ version }) })),
        json: await attempt(fetch(approve, { method: "POST", credentials: "include", headers: { "content-type": "application/json" }, body: "{}" })),
        stream: await stream,
      };
    }, [server.url, approve, held.version]);
    assert.equal(told.page, "TypeError");
    assert(["TypeError", "opaque "].includes(told.blind), told.blind);
    assert.equal(told.json, "TypeError");
    assert.equal(told.stream, "refused");
    const framed = page.frames().filter((frame) => frame.url().startsWith(server.url));
    for (const frame of framed) assert.doesNotMatch(await frame.content(), /Approve once/, "framed");
    assert.match(await does.read("/approvals"), new RegExp(`approval-${held.approval}`), "still held");
    await assert.rejects(server.file(`sandbox/${name}.txt`), "it ran");

    // The same form in our own page is what approves.
    await page.goto(`${server.url}/approvals`);
    await page.locator(`#approval-${held.approval}`).getByRole("button", { name: "Approve once" }).click();
    await until(page, async () => !(await page.locator(`#pending #approval-${held.approval}`).count()));
    assert.equal(await server.file(`sandbox/${name}.txt`), "foreign");
  });
}
