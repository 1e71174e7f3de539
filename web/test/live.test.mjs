// The page as a gateway serves it: real frames between cables in a network namespace of its own. `scripts/web --test` runs it there
// (`unshare --net`), as root, with the program in FAIRLINK.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { violations } from "./axe.mjs";
import { close, launch, openAt, until } from "./browser.mjs";

const program = process.env.FAIRLINK;
const dist = new URL("../dist/", import.meta.url).pathname;
const directory = mkdtempSync(join(tmpdir(), "fairlink-live-"));
const at = "http://127.0.0.1:9480/";
const LINK = `# The line to the office.
[link]
rate = "20mbit"
default = "bulk"
[[class]]
name = "voice"
guarantee = "2mbit"
match = ["udp dst port 5001"]
[[class]]
name = "work"
guarantee = "10mbit"
[[class]]
name = "web"
parent = "work"
guarantee = "6mbit"
match = ["udp dst port 5002"]
[[class]]
name = "mail"
parent = "work"
guarantee = "4mbit"
ceiling = "3mbit"
match = ["udp dst port 5003"]
[[class]]
name = "bulk"
guarantee = "8mbit"
match = ["udp dst port 5004"]
`;
const source = (name, rate) => `[[source]]\nclass = "${name}"\nmodel = "cbr"\nrate = "${rate}"\npacket = "1000B"\n`;
const TRAFFIC = `duration = "300s"\n${LINK.replace("20mbit", "1gbit").replace('ceiling = "3mbit"\n', "")}` +
  source("voice", "1mbit") + source("web", "9mbit") + source("mail", "9mbit") + source("bulk", "13mbit");
const running = [];
let browser, gateway;

const ip = (...words) => execFileSync("ip", words, { stdio: ["ignore", "ignore", "inherit"] });
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function run(...words) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
  child.text = "";
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (data) => (child.text += data));
  child.ended = new Promise((resolve) => child.on("exit", resolve));
  running.push(child);
  return child;
}

async function started() {
  const child = run("gateway", join(directory, "link.toml"), "--in", "in", "--out", "out", "--control", join(directory, "g.sock"), "--page", "--page-files", dist);
  for (let tries = 0; !/running until/.test(child.text); tries++) {
    assert.ok(tries < 200 && child.exitCode === null, child.text);
    await wait(50);
  }
  return child;
}

before(async () => {
  ip("link", "set", "lo", "up");
  for (const [one, other] of [["from", "in"], ["out", "to"]]) {
    ip("link", "add", one, "type", "veth", "peer", "name", other);
    for (const name of [one, other]) ip("link", "set", name, "up");
  }
  writeFileSync(join(directory, "link.toml"), LINK);
  writeFileSync(join(directory, "traffic.toml"), TRAFFIC);
  gateway = await started();
  run("generate", join(directory, "traffic.toml"), "--out", "from");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const child of running) child.kill("SIGINT");
  await Promise.all(running.map((child) => child.ended));
  rmSync(directory, { recursive: true });
});

async function open(options = {}) {
  const page = await openAt(browser, at, options);
  await until(page, () => document.querySelectorAll("#live-tree .row").length === 5);
  return page;
}

const megabits = (page) => page.$$eval("#live-tree .row", (rows) => Object.fromEntries(rows.map((row) => {
  const [number, unit] = row.querySelector(".rate").textContent.split(" ");
  return [row.firstChild.textContent.replace(/[▾▸]/, ""), Number(number) * ({ "Mbit/s": 1, "kbit/s": 1e-3 }[unit] ?? 0)];
})));
/** Waits until the classes have these rates in Mbit/s: a busy machine loses some of the link's time now and then. */
async function comes(page, expected) {
  let rates;
  for (let tries = 0; tries < 30; tries++) {
    rates = await megabits(page);
    if (Object.entries(expected).every(([name, rate]) => Math.abs(rates[name] - rate) < 0.03 * rate)) return;
    await wait(1000);
  }
  assert.fail(JSON.stringify({ rates, expected }));
}
const token = () => readFileSync(join(directory, "g.token"), "utf8").trim();

test("a running gateway is seen: rates beside ideals, delays beside bounds, drops by cause, limits", async () => {
  const page = await open();
  await until(page, () => / of 20 Mbit\/s/.test(document.querySelector("#live-state").textContent));
  await until(page, () => [...document.querySelectorAll("#live-tree .row")].some((row) => row.textContent.includes("ceiling")));
  // Of what voice leaves, work gets 10 parts and bulk 8; in work, mail is held by its ceiling.
  const expected = { voice: 1, mail: 3, work: 19 * (10 / 18), web: 19 * (10 / 18) - 3, bulk: 19 * (8 / 18) };
  await comes(page, expected);
  await page.click("#live-tree .row:has-text('mail')");
  await until(page, () => /packets: [0-9]+ /.test(document.querySelector("#live-details").textContent));
  const details = await page.textContent("#live-details");
  assert.match(details, /limited byceiling \(mail\)/);
  assert.match(details, /queue/);
  await page.click("#live-tree .row:has-text('work')");
  await until(page, () => [...document.querySelectorAll("#live-plot .u-label")].some((label) => label.textContent === "web"));
  assert.deepEqual(await violations(page), []);
  await close(page);
});

test("a change is compared, refused without the token, tried, and committed; the file stays", async () => {
  const page = await open();
  await page.click("#live-plan");
  await until(page, () => fairlink.link().includes("The line to the office"));
  await page.evaluate(() => fairlink.load(fairlink.link().replace('ceiling = "3mbit"', 'ceiling = "2mbit"')));
  await page.click("#change-compare");
  await until(page, () => document.querySelector("#change-result").textContent.includes("3 Mbit/s → 2 Mbit/s"));
  await page.click("#change-try");
  await until(page, () => document.querySelector("#change-result").textContent.includes("g.token"));
  assert.ok(await page.isDisabled("#change-commit"));
  await page.fill("#change-token", token());
  await page.click("#change-try");
  await until(page, () => document.querySelector("#change-result").textContent.includes("A commit would"));
  assert.match(await page.textContent("#change-result"), /mail/);
  assert.ok(!(await page.textContent("#change-result")).includes("voice"), "voice does not change");
  await page.click("#change-commit");
  await until(page, () => document.querySelector("#change-result").textContent.includes("Committed as change 1"));
  assert.ok(await page.isDisabled("#change-commit"), "it is committed once");
  await page.click("#view-live");
  await comes(page, { mail: 2, web: 19 * (10 / 18) - 2 });
  assert.equal(readFileSync(join(directory, "link.toml"), "utf8"), LINK);
  await page.click("#view-plan");
  await page.evaluate(() => fairlink.load(fairlink.link().replace("[link]", "[link]\nnonsense = 1")));
  await page.click("#change-try");
  await until(page, () => document.querySelector("#change-result").textContent.includes("nonsense"));
  await close(page, /401|422/);
});

test("a gateway that dies and returns is said, and what was seen stays", async () => {
  const page = await open({ colorScheme: "dark" });
  gateway.kill("SIGKILL");
  await gateway.ended;
  await until(page, () => document.querySelector("#live-state").textContent.includes("does not answer"));
  assert.equal(await page.$$eval("#live-tree .row", (rows) => rows.length), 5);
  gateway = await started();
  await until(page, () => / of 20 Mbit\/s/.test(document.querySelector("#live-state").textContent));
  assert.equal(statSync(join(directory, "g.token")).mode & 0o777, 0o600);
  await close(page, /ERR_|Failed to load/);
});

test("it fits a telephone, and can be looked at", async () => {
  const page = await open({ viewport: { width: 390, height: 844 } });
  await wait(3000);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, "live-390.png"), fullPage: true });
  await close(page);
  const wide = await open();
  await wide.click("#live-tree .row:has-text('work')");
  await wait(8000);
  if (process.env.SCREENSHOTS) await wide.screenshot({ path: join(process.env.SCREENSHOTS, "live-1280.png"), fullPage: true });
  await close(wide);
});
