// Bundles the page into dist/, with the two parts of the engine that scripts/web has compiled.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const root = new URL("..", import.meta.url);
const out = new URL("dist/", import.meta.url);
await mkdir(out, { recursive: true });
const common = { bundle: true, minify: true, legalComments: "none", target: "es2022", logLevel: "warning" };
const worker = await build({ ...common, entryPoints: ["src/worker.ts"], write: false, format: "iife" });

// Scenarios of the repository, with the titles that the page shows.
const examples = [
  ["An office", "office"],
  ["An evening at home, with TCP", "evening"],
  ["A tower of a provider", "tower"],
  ["Voice beside bulk", "voice"],
  ["A ping beside a backup", "ping"],
  ["The uplink of a small office, without traffic", "gateway"],
  ["Experiment 2 of the HLS paper", "exp2-H"],
  ["Experiment 1 of the HLS paper, on its Figure 1", "exp1"],
  ["Figure 1 of the H-FSC paper", "hfsc/fig1"],
  ["Figure 10 of the H-FSC paper", "hfsc-fig10"],
  ["Sharing with ceilings, as in the HTB text", "beyond/ceilings"],
  ["Figure 5.1 of the DRR++ thesis", "thesis/fig51"],
  ["A short queue under FQ-SDS", "sds/short-queue"],
];
const read = async ([title, name]) => ({ title, name, text: await readFile(new URL(`scenarios/${name}.toml`, root), "utf8") });
const define = {
  WORKER: JSON.stringify(worker.outputFiles[0].text),
  EXAMPLES: JSON.stringify(await Promise.all(examples.map(read))),
};
await build({ ...common, entryPoints: ["src/main.ts"], outfile: new URL("page.js", out).pathname, format: "iife", define });
await build({ ...common, entryPoints: ["src/page.css"], outfile: new URL("page.css", out).pathname });
await copyFile("src/index.html", new URL("index.html", out));
for (const [part, name] of [["plan", "engine.wasm"], ["import", "import.wasm"]]) {
  const module = await readFile(new URL(`engine/target/${part}.wasm`, import.meta.url));
  await writeFile(new URL(name, out), module);
  // A page that was opened as a file may not read another file, but may run a script.
  await writeFile(new URL(`${name}.js`, out), `(window.fairlinkModules??={})["${name}"]="${module.toString("base64")}";\n`);
}
// A gateway sends these as they are.
for (const name of ["page.js", "page.css", "engine.wasm", "import.wasm"]) {
  const file = new URL(name, out);
  await writeFile(`${file.pathname}.gz`, gzipSync(await readFile(file), { level: 9 }));
}
