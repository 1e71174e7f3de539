// Asks the engine, and starts another one if it stops.

import type { Problem } from "./types";

/** What is wrong with a request, at its place. */
export class Refused extends Error {
  constructor(readonly problems: Problem[]) {
    super(problems.map((problem) => problem.message).join("; "));
  }
}

declare const WORKER: string;
declare global {
  interface Window {
    /** The modules as base64, where the page was opened as a file. */
    fairlinkModules?: Record<string, string>;
  }
}

/** Reads the module: over HTTP, or from a script where the browser does not read files. */
async function fetchModule(name: string): Promise<ArrayBuffer> {
  if (location.protocol !== "file:") {
    const response = await fetch(name);
    if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
    return response.arrayBuffer();
  }
  if (!window.fairlinkModules?.[name]) {
    await new Promise<void>((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${name}.js`;
      script.onload = () => resolve();
      script.onerror = () => reject(new Error(`${name}.js is not beside this page`));
      document.head.append(script);
    });
  }
  return Uint8Array.from(atob(window.fairlinkModules?.[name] ?? ""), (letter) => letter.charCodeAt(0)).buffer;
}

/** A request: what to do, and the fields of it. */
export interface Request {
  do: string;
  [field: string]: unknown;
}

interface Waiting {
  resolve(answer: string): void;
  reject(error: Error): void;
}

export class Engine {
  private worker: Worker | undefined;
  private module: Promise<ArrayBuffer> | undefined;
  private waiting = new Map<number, Waiting>();
  private next = 0;
  /** Number of engines that were started. A simulation does not outlive its engine. */
  generation = 0;

  /** `name`: the file of its module. */
  constructor(private readonly name: string) {}

  private async start(): Promise<Worker> {
    this.module ??= fetchModule(this.name);
    const module = await this.module.catch((error: Error) => {
      this.module = undefined;
      throw error;
    });
    if (this.worker) return this.worker;
    const url = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    const worker = new Worker(url);
    this.worker = worker;
    this.generation += 1;
    worker.onmessage = ({ data }: MessageEvent<{ number: number; answer?: string; failed?: string }>) => {
      const waiting = this.waiting.get(data.number);
      this.waiting.delete(data.number);
      if (data.answer !== undefined) waiting?.resolve(data.answer);
      else {
        waiting?.reject(new Error(`the engine has stopped: ${data.failed}`));
        this.stop("the engine has stopped");
      }
    };
    worker.onerror = () => this.stop("the engine has stopped");
    worker.postMessage({ module });
    return worker;
  }

  /** Ends the engine; the next question starts another one. */
  stop(why: string): void {
    this.worker?.terminate();
    this.worker = undefined;
    for (const waiting of this.waiting.values()) waiting.reject(new Error(why));
    this.waiting.clear();
  }

  /** Asks, and returns the answer as it came. */
  async text({ do: what, ...about }: Request): Promise<string> {
    const worker = await this.start();
    const number = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      worker.postMessage({ number, request: JSON.stringify({ [what]: about }) });
    });
  }

  /** Asks, and throws `Refused` if something is wrong with the request. */
  async ask<T>(request: Request): Promise<T> {
    const { answer, problems } = JSON.parse(await this.text(request)) as { answer?: T; problems?: Problem[] };
    if (problems) throw new Refused(problems);
    return answer as T;
  }
}
