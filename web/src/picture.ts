// The plan as a picture of its own, for documents.

import { rate } from "./format";
import { svgElement } from "./tree";
import type { ClassReport } from "./types";

const [WIDTH, ROW, NAMES, BARS] = [800, 24, 260, 380];

/** Returns the tree with shares of a link with this capacity in bit/s. */
export function picture(classes: ClassReport[], capacity: number): SVGElement {
  const height = String(ROW * (classes.length + 1));
  const svg = svgElement("svg", { xmlns: "http://www.w3.org/2000/svg", width: String(WIDTH), height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": "sans-serif", "font-size": "14", fill: "#1b1f24" });
  const text = (x: number, y: number, said: string, anchor = "start") => {
    const element = svgElement("text", { x: String(x), y: String(y), "text-anchor": anchor });
    element.textContent = said;
    svg.append(element);
  };
  svg.append(svgElement("rect", { width: String(WIDTH), height, fill: "#ffffff" }));
  text(8, 17, `${rate(capacity)}`);
  const depth = new Map<string, number>();
  classes.forEach(({ name, parent, ideal, terms }, at) => {
    const level = parent === null ? 0 : (depth.get(parent) ?? 0) + 1;
    depth.set(name, level);
    const y = ROW * (at + 1);
    const bar = (bps: number, fill: string) => svgElement("rect", { x: String(NAMES), y: String(y + 5), width: String((BARS * Math.min(bps, capacity)) / capacity), height: "14", fill });
    text(8 + 16 * level, y + 17, name);
    svg.append(bar(capacity, "#eef1f4"), bar(ideal?.allocation_bps ?? 0, "#0072b2"));
    if (terms?.ceiling_bps != null) {
      const x = String(NAMES + (BARS * Math.min(terms.ceiling_bps, capacity)) / capacity);
      svg.append(svgElement("line", { x1: x, x2: x, y1: String(y + 5), y2: String(y + 19), stroke: "#1b1f24", "stroke-width": "2" }));
    }
    text(WIDTH - 8, y + 17, rate(ideal?.allocation_bps), "end");
  });
  return svg;
}

/** The picture as points, twice as fine. */
export async function points(svg: SVGElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg.outerHTML)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser"))), "image/png"));
}
