// The laboratory's report, which looks as the page does, and opens its scenarios there. `scripts/web --test` runs it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { violations } from "./axe.mjs";
import { close, launch, openAt, until } from "./browser.mjs";

const lab = process.env.FAIRLINK_LAB;
const skip = lab ? false : "FAIRLINK_LAB names no program";
const dist = new URL("../dist/", import.meta.url);
let browser, directory, report;

before(async () => {
  if (skip) return;
  directory = mkdtempSync(join(tmpdir(), "fairlink-report-"));
  execFileSync(lab, ["reproduce", "hls.exp2", "--quick", "--page-files", dist.pathname, "--out", directory], { stdio: "ignore" });
  report = pathToFileURL(join(directory, "index.html")).href;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  if (directory) rmSync(directory, { recursive: true });
});

/** What makes the look, of elements that both have. */
const look = (page) =>
  page.evaluate(() => {
    const of = (selector, ...names) => {
      const style = getComputedStyle(document.querySelector(selector));
      return [selector, ...names.map((name) => style.getPropertyValue(name))];
    };
    return [
      of("html", "font-family", "font-size", "line-height"),
      of("body", "background-color", "color", "margin-top"),
      of("header", "border-bottom-color", "border-bottom-width", "padding-left"),
      of("header h1", "font-size", "font-weight"),
      of("header nav :is(button:not([aria-pressed=true], [hidden]), .button)", "border-top-color", "border-radius", "background-color", "color", "padding-left", "min-height").slice(1),
    ];
  });

for (const colorScheme of ["light", "dark"]) {
  test(`the report looks as the page does (${colorScheme})`, { skip }, async () => {
    const page = await openAt(browser, new URL("index.html", dist).href, { colorScheme });
    const other = await openAt(browser, report, { colorScheme });
    const wanted = await look(page);
    assert.deepEqual(await look(other), wanted);
    assert.deepEqual(await violations(other), []);
    // Paper is white.
    await other.emulateMedia({ media: "print" });
    assert.equal(await other.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    await close(other);
    await close(page);
  });
}

test("the report fits a telephone, and its scenario runs in the page beside it", { skip }, async () => {
  const page = await openAt(browser, report, { viewport: { width: 390, height: 844 } });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  const links = await page.locator(".run a").count();
  assert.equal(links, 3);
  await page.locator(".run a").first().click();
  await page.waitForSelector(".row");
  assert.match(page.url(), /page\/index\.html#1,/);
  await page.click("#view-play");
  await page.click("#step");
  await until(page, () => document.querySelector("#clock").textContent.startsWith("0.02 s"));
  await close(page);
});
