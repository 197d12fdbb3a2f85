// What a page weighs, where it comes from, how it fits, and what the keyboard shows.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { desktop, openBrowser, person } from "./house/browser.js";
import { open, workingDay } from "./house/scenes.js";
import { start } from "./house/server.js";

let browser, server, first, pages, cookies;
before(async () => {
  browser = await openBrowser();
  server = await start();
  first = await person(browser, server);
  await first.signIn();
  pages = await workingDay(first, server);
  cookies = await first.context.cookies();
});
after(async () => {
  await first?.close();
  await browser?.close();
  await server?.stop();
});

async function someone(options = {}) {
  const one = await person(browser, server, { expected: [/404/], ...options });
  await one.context.addCookies(cookies);
  return one;
}

test("a page is at most 100 KB over the wire, with stylesheet and scripts; what is fingerprinted comes from the cache the next time", async () => {
  const one = await someone();
  const wire = await one.context.newCDPSession(one.page);
  await wire.send("Network.enable");
  const urls = new Map(), kept = new Set();
  let bytes = 0;
  wire.on("Network.requestWillBeSent", ({ requestId, request }) => urls.set(requestId, new URL(request.url).pathname));
  wire.on("Network.requestServedFromCache", ({ requestId }) => kept.add(urls.get(requestId)));
  wire.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => { if (urls.has(requestId)) bytes += encodedDataLength; });
  const load = async (path) => {
    bytes = 0;
    kept.clear();
    await one.page.goto(server.url + path, { waitUntil: "load" });
    return bytes;
  };
  for (const { name, path } of pages) {
    await wire.send("Network.clearBrowserCache");
    if (name.startsWith("sign-in")) await one.context.clearCookies();
    const cold = await load(path);
    assert(cold > 1_000 && cold <= 100 * 1024, `${name} weighs ${cold} bytes`);
  }
  await one.context.addCookies(cookies);
  await load("/approvals");
  const statics = await one.page.evaluate(() =>
    [...document.querySelectorAll("script[src], link[rel=stylesheet]")].map((one) => new URL(one.src ?? one.href).pathname));
  const again = await load("/approvals");
  assert(statics.length > 0 && statics.every((path) => /^\/static\/[0-9a-f]{16}\//.test(path)), statics.join());
  for (const path of statics) assert(kept.has(path), `${path} was fetched again, ${again} bytes in all`);
  await one.close();
});

for (const width of [390, 640, 768, 1024, 1440, 1920]) {
  test(`nothing scrolls sideways at ${width} px`, async () => {
    const one = await someone({ view: { width, height: 844 } });
    for (const { name, path } of pages) {
      await open(one, server, { name, path });
      await one.page.evaluate(() => { for (const one of document.querySelectorAll("details:not(.menu)")) one.open = true; });
      const wide = await one.page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        // What stands beyond the edge cannot be reached, unless something around it scrolls or hides it on purpose.
        const reachable = (node) => {
          for (let up = node.parentElement; up; up = up.parentElement) {
            if (/auto|scroll/.test(getComputedStyle(up).overflowX) || up.matches(".clip, .sr-only")) return true;
          }
          return false;
        };
        const beyond = [...document.querySelectorAll("main *:not(.sr-only)")].filter((node) => {
          const box = node.getBoundingClientRect();
          return box.width > 1 && box.right > clientWidth + 1 && !reachable(node);
        });
        return { over: scrollWidth - clientWidth, beyond: beyond.map((node) => node.outerHTML.slice(0, 120)) };
      });
      assert.deepEqual(wide, { over: 0, beyond: [] }, `${name} at ${width} px`);
    }
    await one.close();
  });
}

for (const scheme of ["light", "dark"]) {
  test(`each stop of the Tab key is seen, ${scheme}`, async () => {
    const one = await someone({ scheme });
    for (const { name, path } of pages) {
      await open(one, server, { name, path });
      const seen = new Set();
      for (let stop = 0, ends = 0; stop < 300 && ends < 2; stop += 1) {
        await one.page.keyboard.press("Tab");
        const at = await one.page.evaluate(() => {
          const node = document.activeElement;
          if (!node || node === document.body) return null;
          const parents = [node];
          while (parents.length < 4 && parents.at(-1).parentElement) parents.push(parents.at(-1).parentElement);
          const look = () => parents.map((one) => {
            const { outlineStyle, outlineWidth, boxShadow, borderColor, translate } = getComputedStyle(one);
            return outlineStyle === "none" ? [boxShadow, borderColor, translate] : [outlineStyle, outlineWidth, boxShadow, borderColor];
          });
          const box = node.getBoundingClientRect();
          const focused = JSON.stringify(look());
          node.blur();
          const blurred = JSON.stringify(look());
          node.focus({ preventScroll: true });
          node.dataset.stop ??= String(Math.random());
          return { key: node.dataset.stop, html: node.outerHTML.slice(0, 160), shown: focused !== blurred, sized: box.width > 0 && box.height > 0 };
        });
        // After the last stop comes the browser itself, and then the first one.
        if (!at) { ends += 1; continue; }
        if (seen.has(at.key)) break;
        seen.add(at.key);
        assert(at.shown && at.sized, `${name}: the focus does not show on ${at.html}`);
      }
      assert(seen.size > (name === "sign-in-help" ? -1 : /^(sign-in|not-found)/.test(name) ? 0 : 8), `${name}: only ${seen.size} stops`);
    }
    await one.close();
  });
}

test("who asked for less motion gets none", async () => {
  const moving = async (reducedMotion) => {
    const one = await someone({ reducedMotion });
    const names = [];
    for (const { name, path } of pages) {
      await open(one, server, { name, path });
      names.push(...await one.page.evaluate(() => document.getAnimations().map((one) => one.animationName ?? one.transitionProperty)));
      for (const link of await one.page.locator("main .btn:visible").all()) {
        await link.hover({ trial: false, force: true, timeout: 1000 }).catch(() => {});
        names.push(...await one.page.evaluate(() => document.getAnimations().map((one) => one.animationName ?? one.transitionProperty)));
        break;
      }
    }
    await one.close();
    return names;
  };
  assert.deepEqual(await moving("reduce"), []);
  assert((await moving("no-preference")).includes("breathe"), "otherwise the mark of a live page breathes");
});

test("a call's story is printed without what stands around it", async () => {
  const one = await someone({ view: desktop });
  await one.page.goto(server.url + pages.find(({ name }) => name === "audit-call").path);
  await one.page.emulateMedia({ media: "print" });
  const shown = (selector) => one.page.locator(selector).first().isVisible();
  assert(await shown("main h1"));
  for (const selector of [".side .nav", ".brand", ".skip-link", "#live"]) assert(!(await shown(selector)), `${selector} is printed`);
  const folded = await one.page.evaluate(() => [...document.querySelectorAll("main details:not([open]) > :not(summary)")]
    .filter((one) => one.checkVisibility() && !one.getBoundingClientRect().height).map((one) => one.outerHTML.slice(0, 100)));
  assert.deepEqual(folded, [], "what is folded away would be missing on paper");
  await one.close();
});
