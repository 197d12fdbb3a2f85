// Chromium, and a person in it whose pages are watched: what a page must never do fails the test.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const phone = { width: 390, height: 844 };
export const desktop = { width: 1440, height: 900 };

/** Starts the browser that Debian packages. */
export const openBrowser = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});

/**
 * A person with a browser of their own. `complaints` gathers console errors, uncaught exceptions, violations of the
 * content policy, requests to anywhere else than the product, and answers that say the server broke; `close()` asserts
 * that there were none. `expected` names those that a test brings about on purpose.
 */
export async function person(browser, server, { script = true, view = desktop, scheme = "light", reducedMotion = "reduce", expected = [] } = {}) {
  const context = await browser.newContext({
    javaScriptEnabled: script,
    viewport: view,
    colorScheme: scheme,
    hasTouch: view === phone,
    reducedMotion,
  });
  context.setDefaultTimeout(20_000);
  const complaints = [];
  const complain = (text) => { if (!expected.some((known) => known.test(text))) complaints.push(text); };
  context.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complain(`console ${message.type()}: ${message.text()}`);
  });
  context.on("weberror", (error) => complain(`uncaught: ${error.error().message}`));
  context.on("request", (request) => {
    if (new URL(request.url()).origin !== server.url) complain(`request elsewhere: ${request.url()}`);
  });
  context.on("response", (response) => {
    if (response.status() >= 500) complain(`${response.status()} from ${response.url()}`);
  });
  const page = await context.newPage();
  return {
    context,
    page,
    complaints,
    async signIn() {
      await page.goto(server.signIn);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("navigation", { name: "Main" }).waitFor();
    },
    async close() {
      await context.close();
      assert.deepEqual(complaints, [], "the pages kept to themselves");
    },
  };
}

/** Asks until `check` holds. With a script the page changes by itself; without one the person loads it again. */
export async function until(page, check, { reload = false } = {}) {
  const end = Date.now() + 20_000;
  for (;;) {
    if (await check()) return;
    assert(Date.now() < end, `never seen at ${page.url()}: ${check}\n${await page.locator("body").innerText()}`);
    if (reload) await page.reload(); else await page.waitForTimeout(50);
  }
}
