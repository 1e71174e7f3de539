// A link that holds a file in its fragment: deflated, in base64 for URLs. Nothing is sent anywhere.

/** Longest text that is read, of a file or of a link, in bytes. */
export const LONGEST = 16 << 20;

class TooLong extends Error {}

/** Passes bytes through a stream; throws once there are more than a text may have, however many would follow. */
async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    length += part.value.length;
    if (length > LONGEST) {
      void reader.cancel();
      throw new TooLong(`The text of this link has more than ${LONGEST} B, which is as much as the page takes.`);
    }
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

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
    return new TextDecoder("utf-8", { fatal: true }).decode(unpacked);
  } catch (error) {
    if (error instanceof TooLong) throw error;
    throw new Error("This link is incomplete or damaged: the file in it cannot be read. Copy the whole link again.");
  }
}
