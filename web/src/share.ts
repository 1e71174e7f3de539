// A link that holds a file in its fragment: deflated, in base64 for URLs. Nothing is sent anywhere.

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream) {
  const out = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(out).arrayBuffer());
}

/** Longest text that a link may hold when it is opened, in bytes. */
const LONGEST = 16 << 20;

export async function toFragment(text: string): Promise<string> {
  const packed = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  return "#1," + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns the text of a fragment; `null` if it has none. Throws if it is damaged. */
export async function fromFragment(fragment: string): Promise<string | null> {
  if (!fragment.startsWith("#1,")) return null;
  try {
    const binary = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const packed = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const unpacked = await through(packed, new DecompressionStream("deflate-raw"));
    if (unpacked.length > LONGEST) throw new Error("too long");
    return new TextDecoder("utf-8", { fatal: true }).decode(unpacked);
  } catch {
    throw new Error("This link is incomplete or damaged: the file in it cannot be read. Copy the whole link again.");
  }
}
