// Pictures of every page, light and dark: `screenshots [FOLDER [png]]`; without a folder, those of the documentation.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { openBrowser, person, phone, until } from "./house/browser.js";
import { open, workingDay } from "./house/scenes.js";
import { start } from "./house/server.js";

const [folder = resolve(dirname(fileURLToPath(import.meta.url)), "../../docs/screenshots"), format = "webp"] = process.argv.slice(2);
const desk = { width: 1280, height: 800 };
// What looks like another page, and the pages that are shown on a phone too.
const alike = ["agent-list", "policies-try", "audit-none", "tools-absent"];
const onPhone = ["overview", "agent-held", "approvals", "policies", "audit", "tools"];

const browser = await openBrowser();
const server = await start();
try {
  const first = await person(browser, server);
  await first.signIn();
  const pages = await workingDay(first, server);
  const cookies = await first.context.cookies();
  await first.context.close();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const scheme of ["light", "dark"]) {
    for (const [view, wanted, suffix] of [[desk, ({ name }) => !alike.includes(name), ""], [phone, ({ name }) => onPhone.includes(name), "-phone"]]) {
      const someone = await person(browser, server, { view, scheme });
      const { context, page } = someone;
      await context.addCookies(cookies);
      const wire = await context.newCDPSession(page);
      for (const { name, path } of pages.filter(wanted)) {
        await open(someone, server, { name, path });
        if (await page.locator("#live").isVisible()) await until(page, async () => await page.locator("#live").innerText() === "Live");
        const { data } = await wire.send("Page.captureScreenshot", { format, ...(format === "webp" && { quality: 30 }) });
        await writeFile(join(folder, `${name}${suffix}-${scheme}.${format}`), Buffer.from(data, "base64"));
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  await server.stop();
}
