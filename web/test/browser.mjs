// A page in Chromium, for all tests.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens an address. The page keeps its own errors, which `close` expects to be none. */
export async function openAt(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (line) => line.type() === "error" && page.errors.push(line.text()));
  await page.goto(address);
  return page;
}

/** Closes a page; the test fails on any error of the page itself, but for those that are expected. */
export async function close(page, expected = /^$/) {
  assert.deepEqual(page.errors.filter((error) => !expected.test(error)), []);
  await page.context().close();
}

export const until = (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: 30000 });
