// What axe finds wrong for people who use other senses, or other devices.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the violations on the page as it is, a line each. */
export async function violations(page) {
  await page.evaluate(source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ target }) => `${id}: ${help}: ${target.join(" ")}`));
}
