// The engine in its own thread. A message is the module's bytes first, then requests as texts.

interface Exports {
  memory: WebAssembly.Memory;
  request_room(length: number): number;
  answer(): number;
  answer_start(): number;
}

let engine: Promise<Exports> | undefined;

self.onmessage = async ({ data }: MessageEvent<{ module?: ArrayBuffer; number?: number; request?: string }>) => {
  if (data.module) {
    engine = WebAssembly.instantiate(data.module, {}).then(({ instance }) => instance.exports as unknown as Exports);
    return;
  }
  try {
    if (!engine) throw new Error("the engine has not come yet");
    const exports = await engine;
    const bytes = new TextEncoder().encode(data.request);
    const room = exports.request_room(bytes.length);
    new Uint8Array(exports.memory.buffer, room, bytes.length).set(bytes);
    const length = exports.answer();
    const answer = new Uint8Array(exports.memory.buffer, exports.answer_start(), length);
    self.postMessage({ number: data.number, answer: new TextDecoder().decode(answer) });
  } catch (error) {
    // The module's state is unknown after a trap, so that nothing more is asked of it.
    self.postMessage({ number: data.number, failed: String(error) });
  }
};
