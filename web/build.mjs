// Bundles the page into dist/, with the engine that scripts/web has compiled.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const root = new URL("..", import.meta.url);
const out = new URL("dist/", import.meta.url);
const wasm = process.argv[2];
await mkdir(out, { recursive: true });
const common = { bundle: true, minify: true, legalComments: "none", target: "es2022", logLevel: "warning" };
const worker = await build({ ...common, entryPoints: ["src/worker.ts"], write: false, format: "iife" });

// Scenarios of the repository, with the titles that the page shows.
const examples = [
  ["An office", "scenarios/office.toml"],
  ["Experiment 2 of the HLS paper", "scenarios/exp2-H.toml"],
];
const read = async ([title, path]) => ({ title, text: await readFile(new URL(path, root), "utf8") });
const define = {
  WORKER: JSON.stringify(worker.outputFiles[0].text),
  EXAMPLES: JSON.stringify(await Promise.all(examples.map(read))),
};
await build({ ...common, entryPoints: ["src/main.ts"], outfile: new URL("page.js", out).pathname, format: "iife", define });
await build({ ...common, entryPoints: ["src/page.css"], outfile: new URL("page.css", out).pathname });
await copyFile("src/index.html", new URL("index.html", out));
const module = await readFile(wasm);
await writeFile(new URL("engine.wasm", out), module);
// A page that was opened as a file may not read another file, but may run a script.
await writeFile(new URL("engine.wasm.js", out), `window.fairlinkModule="${module.toString("base64")}";\n`);
// A gateway sends these as they are.
for (const name of ["page.js", "page.css", "engine.wasm"]) {
  const file = new URL(name, out);
  await writeFile(`${file.pathname}.gz`, gzipSync(await readFile(file), { level: 9 }));
}
