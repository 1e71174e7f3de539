// The page in Chromium, as a person uses it. `scripts/web --test` runs it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { readFile, mkdtemp, writeFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { after, before, test } from "node:test";
import { violations } from "./axe.mjs";
import { close, launch, openAt, until } from "./browser.mjs";

const dist = new URL("../dist/", import.meta.url);
const kinds = { html: "text/html", js: "text/javascript", css: "text/css", wasm: "application/wasm" };
let browser, server, address;

before(async () => {
  server = createServer(async (request, response) => {
    const name = new URL(request.url, "http://page").pathname.slice(1) || "index.html";
    try {
      const body = await readFile(new URL(name, dist));
      response.writeHead(200, { "content-type": kinds[name.split(".").at(-1)] ?? "text/plain" }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${server.address().port}/`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.close();
});

async function open(options = {}, at = address) {
  const page = await openAt(browser, at, options);
  await page.waitForSelector(".row");
  return page;
}

const LINK = `# The line to the office.
[link]
rate = "10mbit"   # of the provider
[[class]]
name = "voice"
guarantee = "2mbit"
[[class]]
name = "data"
guarantee = "8mbit"
`;

async function type(page, text) {
  await page.click(".cm-content");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.evaluate((text) => document.execCommand("insertText", false, text), text);
}

const rates = (page) => page.$$eval(".row", (rows) => Object.fromEntries(rows.map((row) => [row.firstChild.textContent.replace(/[▾▸]/, ""), row.querySelector(".rate").textContent])));
const text = (page) => page.$eval(".cm-content", (content) => [...content.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"));
/** Waits until the tree has exactly these classes. */
const shows = (page, ...names) => until(page, (names) => [...document.querySelectorAll(".row")].map((row) => row.firstChild.textContent.replace(/[▾▸]/, "")).join() === names, names.join());

test("shares follow the file, and demands of leaves", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  assert.deepEqual(await rates(page), { voice: "2 Mbit/s", data: "8 Mbit/s" });
  await page.selectOption('select[data-name="data"]', "0");
  await until(page, () => document.querySelector(".rate").textContent === "10 Mbit/s");
  assert.deepEqual(await rates(page), { voice: "10 Mbit/s", data: "0 bit/s" });
  await close(page);
});

test("a problem is shown at its place, and the last good result stays", async () => {
  const page = await open();
  await type(page, LINK.replace("guarantee = \"8mbit\"", "garantee = \"8mbit\""));
  await until(page, () => document.querySelector("#message").textContent.includes("line 9"));
  assert.match(await page.textContent("#message"), /guarantee/);
  assert.equal(await page.locator(".cm-lintRange-error").textContent(), "garantee");
  await close(page);
});

test("a slider changes the number in the file, and nothing else of it", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  await page.click(".row:has-text('voice')");
  await page.waitForSelector("#details input[type=range]");
  await page.$eval("#details input[type=range]", (range) => {
    range.value = "100";
    range.dispatchEvent(new Event("input"));
  });
  // The rates follow at once, and the file when the slider is let go.
  await until(page, () => [...document.querySelectorAll(".rate")].some((rate) => rate.textContent === "1.11 Mbit/s"));
  assert.equal(await text(page), LINK);
  await page.$eval("#details input[type=range]", (range) => range.dispatchEvent(new Event("change")));
  assert.equal(await text(page), LINK.replace("2mbit", "1mbit").replace(/\n$/, "\n"));
  await until(page, () => [...document.querySelectorAll(".rate")].some((rate) => rate.textContent === "1.11 Mbit/s"));
  await close(page);
});

test("classes are added, renamed and removed in the file", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  const answers = ["video", "films"];
  page.on("dialog", (dialog) => dialog.accept(answers.shift()));
  await page.click("#add");
  await until(page, () => document.querySelector("#message").textContent.includes("weight"));
  // Beside guarantees it needs one, too.
  await type(page, (await text(page)).replace('weight = 1', 'guarantee = "1mbit"').replace("8mbit", "7mbit"));
  await shows(page, "voice", "data", "video");
  await page.click(".row:has-text('video')");
  await page.click("#rename");
  await shows(page, "voice", "data", "films");
  assert.match(await text(page), /name = "films"/);
  await page.click("#remove");
  await shows(page, "voice", "data");
  assert.equal((await text(page)).replace("7mbit", "8mbit").trim(), LINK.trim());
  await close(page);
});

test("a class is removed with the classes below it and their sources", async () => {
  const page = await open();
  await type(page, LINK + '[[class]]\nname = "a"\nparent = "data"\nweight = 1\n[[source]]\nclass = "a"\nmodel = "greedy"\npacket = "1kB"\n');
  await shows(page, "voice", "data", "a");
  await page.click(".row:has-text('data')");
  await page.click("#remove");
  await shows(page, "voice");
  assert.equal((await text(page)).trim(), LINK.slice(0, LINK.lastIndexOf("[[class]]")).trim());
  await close(page);
});

test("what the page computes is what the command line prints", async (context) => {
  const fairlink = process.env.FAIRLINK;
  if (!fairlink) return context.skip("FAIRLINK names no program");
  const dir = await mkdtemp(join(tmpdir(), "fairlink-page-"));
  const page = await open();
  for (const [arguments_, request] of [
    [["check"], { do: "check" }],
    [["fluid"], { do: "fluid" }],
    [["explain", "--class", "voice"], { do: "explain", class: "voice" }],
  ]) {
    const file = join(dir, "link.toml");
    await writeFile(file, LINK);
    const { stdout } = await promisify(execFile)(fairlink, [arguments_[0], file, ...arguments_.slice(1), "--json"]);
    const answer = await page.evaluate((request) => window.fairlink.text(request), { ...request, link: LINK });
    const compact = stdout.trim().replace(/\n\s*/g, "").replaceAll('": ', '":');
    assert.equal(answer, `{"answer":${compact}}`);
  }
  await rm(dir, { recursive: true });
  await close(page);
});

test("a simulation runs, pauses, and goes on with a changed file", async () => {
  const page = await open();
  const sources = `duration = "4s"\n${LINK}[[source]]\nclass = "voice"\nmodel = "greedy"\npacket = "1000B"\n[[source]]\nclass = "data"\nmodel = "greedy"\npacket = "1000B"\n`;
  await type(page, sources);
  await shows(page, "voice", "data");
  await page.click("#view-play");
  for (let step = 0; step < 10; step += 1) {
    await page.click("#step");
    await until(page, (at) => document.querySelector("#clock").textContent === at, `${((step + 1) * 0.02).toFixed(2)} s`);
  }
  await type(page, sources.replace("2mbit", "5mbit").replace("8mbit", "5mbit"));
  await until(page, () => [...document.querySelectorAll(".rate")].every((rate) => rate.textContent === "5 Mbit/s"));
  await page.click("#apply");
  await page.click("#run");
  await until(page, () => document.querySelector("#clock").textContent.includes("the end"));
  // Nearly all of the time with half of the link.
  const sent = await page.$eval(".results tr:nth-child(2) td:nth-child(2)", (cell) => cell.textContent);
  assert.match(sent, /^4\.[6-9]\d* Mbit\/s$/);
  assert.equal(await page.textContent("#notice"), "");
  await close(page);
});

test("a link holds the file, and one that was cut is told", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  await page.click("#share");
  await until(page, () => location.hash.startsWith("#1,"));
  const link = page.url();
  const other = await open({}, link);
  await shows(other, "voice", "data");
  assert.equal(await text(other), await text(page));
  await close(other);
  const cut = await open({}, link.slice(0, -20));
  await until(cut, () => document.querySelector("#notice").textContent.includes("incomplete"));
  await close(cut);
  await close(page);
});

test("a script of tc is dropped on the page, and becomes a link file", async () => {
  const page = await open();
  page.on("dialog", (dialog) => dialog.accept("9mbit"));
  const script = "tc qdisc add dev eth0 root handle 1: htb default 2\ntc class add dev eth0 parent 1: classid 1:2 htb rate 3mbit ceil 9mbit\ntc class add dev eth0 parent 1: classid 1:3 htb rate 6mbit\n";
  const drop = (name, text) =>
    page.evaluate(([name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }, [name, text]);
  await drop("shape.sh", script);
  await until(page, () => document.querySelector("#notice").textContent.includes("read as tc"));
  await until(page, () => document.querySelectorAll(".row").length === 2 && document.querySelector("#summary").textContent.startsWith("9 Mbit/s"));
  assert.match(await text(page), /guarantee = "3Mbit"/);
  await drop("broken.sh", script.replace("3mbit", "3mbat"));
  await until(page, () => document.querySelector("#notice").textContent.includes("3mbat"));
  assert.match(await text(page), /guarantee = "3Mbit"/);
  await close(page);
});

test("ten thousand classes scroll, and are found", async () => {
  const page = await open();
  const many = `[link]\nrate = "10gbit"\n${Array.from({ length: 10000 }, (_, at) => `[[class]]\nname = "c${at}"\nweight = 1\n`).join("")}`;
  await page.evaluate((text) => window.fairlink.load(text), many);
  await until(page, () => document.querySelector("#summary").textContent.includes("10000 leaves"));
  assert.ok((await page.$$(".row")).length < 60);
  await page.fill("#search", "c9999");
  await until(page, () => document.querySelectorAll(".row").length === 1);
  assert.deepEqual(await rates(page), { c9999: "1 Mbit/s" });
  await close(page);
});

test("it works from a disk, without a server", async () => {
  const page = await open({}, new URL("index.html", dist).href);
  await until(page, () => document.querySelectorAll(".row").length > 0);
  await close(page);
});

test("it fits a telephone, in the dark, and by keyboard", async () => {
  const page = await open({ viewport: { width: 390, height: 800 }, colorScheme: "dark" });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  await page.focus("#tree");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await until(page, () => document.querySelector("#details h2"));
  assert.equal(await page.locator('[aria-selected="true"]').count(), 1);
  await close(page);
});

test("axe finds nothing wrong, in the light and in the dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ colorScheme });
    await page.click(".row:has-text('voice')");
    await until(page, () => document.querySelector("#details pre")?.textContent.length > 1);
    assert.deepEqual(await violations(page), []);
    await page.click("#view-play");
    await page.click("#step");
    await until(page, () => document.querySelector("#clock").textContent === "0.02 s");
    assert.deepEqual(await violations(page), []);
    await close(page);
  }
});

test("an engine that has stopped is said, and the next question starts another", async () => {
  const page = await open();
  await type(page, `duration = "60s"\n${LINK}[[source]]\nclass = "voice"\nmodel = "greedy"\npacket = "1000B"\n`);
  await shows(page, "voice", "data");
  await page.click("#view-play");
  await page.click("#run");
  await until(page, () => Number.parseFloat(document.querySelector("#clock").textContent) > 0.1);
  await page.evaluate(() => fairlink.stop());
  await until(page, () => document.querySelector("#notice").textContent.includes("has stopped"));
  assert.equal(await page.textContent("#run"), "Run");
  assert.match(await text(page), /voice/);
  await page.click("#run");
  await until(page, () => Number.parseFloat(document.querySelector("#clock").textContent) > 0.1);
  await close(page);
});

test("a file that is too long is refused with the limit, and the one that is open stays", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(100 << 20)], "huge.toml"));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await until(page, () => document.querySelector("#notice").textContent.includes("104857600 B"));
  assert.match(await page.textContent("#notice"), /and 0 tables \[\[class\]\]; the page takes up to 16777216 B and 100000 classes/);
  assert.equal(await text(page), LINK);
  await close(page);
});

test("a million leaves are refused with the number that fits, and the page goes on", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  const drop = (name, count, more) =>
    page.evaluate(([name, count, more]) => {
      const parts = ['[link]\nrate = "10gbit"\n[template.t]\nweight = 1\n'];
      for (let at = 0; at < count; at += 1) parts.push(`[[class]]\nname="${at.toString(36)}"\n${more}`);
      const data = new DataTransfer();
      data.items.add(new File(parts, name));
      document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }, [name, count, more]);
  const fits = "the page takes up to 16777216 B and 100000 classes: use the command line (fairlink check million.toml)";
  await drop("million.toml", 1_000_000, 'template="t"\n');
  await until(page, (fits) => document.querySelector("#notice").textContent.includes(fits), fits);
  assert.match(await page.textContent("#notice"), / B and 1000000 tables \[\[class\]\]; /);
  assert.equal(await text(page), LINK);
  // So many fit into the text, and not into the engine.
  await drop("many.toml", 300_000, 'template="t"\n');
  await until(page, () => document.querySelector("#message").textContent.includes("the file has 300000 classes; up to 100000 can be read here; use the command line"));
  // A template that would fill the memory.
  await page.evaluate(() => {
    const classes = Array.from({ length: 90_000 }, (_, at) => `[[class]]\nname="${at}"\ntemplate="t"\n`);
    fairlink.load(`[link]\nrate = "10gbit"\n[template.t]\ncomment = "${"x".repeat(100_000)}"\n${classes.join("")}`);
  });
  await until(page, () => document.querySelector("#message").textContent.includes("templates expand the classes to more than 64 MiB"));
  // A text that would be as long as a million classes, as a list.
  await page.evaluate(() => fairlink.load(`class = [${Array.from({ length: 800_000 }, (_, at) => `{name="${at.toString(36)}"}`)}]\n[link]\nrate = "10gbit"\n`));
  await until(page, () => document.querySelector("#message").textContent.includes("the file has 800000 classes; up to 100000 can be read here"));
  // As many as fit.
  await drop("fits.toml", 100_000, "weight=1\n");
  await until(page, () => document.querySelector("#summary").textContent.includes("100000 leaves"), undefined, 60_000);
  assert.equal(await page.textContent("#message"), "");
  await type(page, LINK);
  await shows(page, "voice", "data");
  await close(page);
});

test("a short link of a long text is refused before it is unpacked", async () => {
  const page = await open();
  const fragment = await page.evaluate(async () => {
    const blank = new Blob(Array.from({ length: 64 }, () => new Uint8Array(8 << 20)));
    const packed = new Uint8Array(await new Response(blank.stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer());
    let binary = "";
    for (const byte of packed) binary += String.fromCharCode(byte);
    return "#1," + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  });
  assert.ok(fragment.length < 1_000_000);
  const other = await open({}, address + fragment);
  await until(other, () => document.querySelector("#notice").textContent.includes("more than 16777216 B"));
  await close(other);
  await close(page);
});

test("a guarantee is dragged in the tree, and a class is moved", async () => {
  const page = await open();
  await type(page, LINK.replace("8mbit", "7mbit"));
  await shows(page, "voice", "data");
  const box = await page.locator(".row:has-text('voice') svg").boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + 7);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.1, box.y + 7, { steps: 4 });
  await until(page, () => [...document.querySelectorAll(".rate")].some((rate) => /^1\.2\d Mbit/.test(rate.textContent)));
  assert.match(await text(page), /guarantee = "2mbit"/);
  await page.mouse.up();
  await until(page, () => /guarantee = "(1mbit|99\d0kbit|990kbit|1010kbit)"/.test(fairlink.link()));
  await type(page, LINK);
  await shows(page, "voice", "data");
  await page.locator(".row:has-text('voice') span").first().dragTo(page.locator(".row:has-text('data') span").first());
  await shows(page, "data", "voice");
  assert.match(await text(page), /parent = "data"/);
  page.on("dialog", (dialog) => dialog.accept(""));
  await page.click(".row:has-text('voice')");
  await page.click("#move");
  await shows(page, "voice", "data");
  assert.equal((await text(page)).trim(), LINK.trim());
  await close(page);
});

test("a drag that the browser ends leaves nothing behind", async () => {
  const page = await open();
  const file = LINK.replace("8mbit", "7mbit");
  await type(page, file);
  await shows(page, "voice", "data");
  const ours = { voice: "2.22 Mbit/s", data: "7.78 Mbit/s" };
  assert.deepEqual(await rates(page), ours);
  const box = await page.locator(".row:has-text('voice') svg").boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + 7);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.1, box.y + 7, { steps: 4 });
  await until(page, () => [...document.querySelectorAll(".rate")].some((rate) => /^1\.2\d Mbit/.test(rate.textContent)));
  await page.evaluate(() => dispatchEvent(new PointerEvent("pointercancel")));
  await until(page, () => document.querySelector(".rate").textContent === "2.22 Mbit/s");
  // What the pointer does afterwards is no part of it.
  await page.mouse.move(box.x + box.width * 0.05, box.y + 7, { steps: 4 });
  await page.mouse.up();
  await page.waitForTimeout(300);
  assert.deepEqual(await rates(page), ours);
  assert.equal(await text(page), file);
  // A slider of the other class begins with the file's number of this one.
  await page.click(".row:has-text('data') span");
  await page.waitForSelector("#details input[type=range]");
  await page.$eval("#details input[type=range]", (range) => {
    range.value = "400";
    range.dispatchEvent(new Event("input"));
  });
  await until(page, () => document.querySelector(".rate").textContent === "3.33 Mbit/s");
  await close(page);
});

test("every example is checked, and simulated for a while", async () => {
  const page = await open();
  const names = await page.$$eval("#example option", (options) => options.map((option) => option.textContent));
  assert.ok(names.length >= 10);
  await page.click("#view-play");
  for (const name of names) {
    await page.selectOption("#example", { label: name });
    await until(page, () => document.querySelector("#clock").textContent === "" && document.querySelector("#summary").textContent !== "");
    await page.waitForTimeout(400);
    // A link file has nothing to play.
    if (!(await page.evaluate(() => fairlink.link().includes("[[source]]")))) continue;
    await page.click("#step");
    await until(page, () => document.querySelector("#clock").textContent.startsWith("0.02 s"));
    assert.equal(await page.textContent("#notice") + await page.textContent("#message"), "", name);
  }
  await close(page);
  const voice = await open({}, `${address}#example=voice`);
  assert.match(await text(voice), /latency_critical/);
  await close(voice);
  const none = await open({}, `${address}#example=nothing`);
  await until(none, () => document.querySelector("#notice").textContent.includes("no example nothing"));
  await close(none);
});

test("the plan is downloaded as a file, as SVG and as PNG", async () => {
  const page = await open();
  await type(page, LINK);
  await shows(page, "voice", "data");
  for (const [kind, begins] of [["toml", "# The line"], ["svg", "<svg "], ["png", "\x89PNG"]]) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.selectOption("#download", kind)]);
    assert.equal(download.suggestedFilename(), `link.${kind}`);
    const bytes = await readFile(await download.path());
    assert.equal(bytes.subarray(0, begins.length).toString("latin1"), begins);
    if (process.env.SCREENSHOTS) await writeFile(join(process.env.SCREENSHOTS, `plan.${kind}`), bytes);
  }
  await close(page);
});

test("shares under another scheduler stand beside those of the file's", async () => {
  const page = await open();
  // What a leaves goes to its sibling under hls, and to all by their weights under a scheduler without a tree.
  await type(page, `[link]\nrate = "10mbit"\n[[class]]\nname = "top"\nguarantee = "5mbit"\n[[class]]\nname = "a"\nparent = "top"\nguarantee = "1mbit"\n[[class]]\nname = "b"\nparent = "top"\nguarantee = "4mbit"\n[[class]]\nname = "c"\nguarantee = "5mbit"\n`);
  await shows(page, "top", "a", "b", "c");
  await page.selectOption('select[data-name="a"]', "0");
  await until(page, () => document.querySelectorAll(".row .rate")[2].textContent === "5 Mbit/s");
  await page.selectOption("#plan-beside", "drr");
  await until(page, () => document.querySelector("#besides").textContent === "Under hls | drr");
  const both = await rates(page);
  assert.deepEqual([both.b, both.c], ["5 Mbit/s | 4.44 Mbit/s", "5 Mbit/s | 5.56 Mbit/s"]);
  await page.selectOption("#plan-beside", "fifo");
  await until(page, () => document.querySelector("#besides").textContent.startsWith("Under hls | fifo: "));
  // A scheduler that is chosen must support the file, which stays as it is.
  await page.selectOption("#plan-beside", "");
  await page.selectOption("#scheduler", "drr");
  await until(page, () => document.querySelector("#message").textContent.includes("which drr does not support"));
  assert.ok(!(await text(page)).includes("drr"));
  await close(page);
});
