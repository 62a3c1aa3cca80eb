// Answers whose columns are plain bytes (see study_routes.py): nothing is parsed but the names.

import { address, answer } from "../api.js";

const KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, i1: Int8Array };

/** The answer at a path of the API. */
export async function getPacked(path, query = {}, signal = undefined) {
  const response = await fetch(address(path, query), { signal });
  return response.ok ? unpacked(await response.arrayBuffer()) : answer(response);
}

/** The answer in a buffer. Its columns are typed arrays in which NaN is unknown; they share the buffer. */
export function unpacked(buffer) {
  const size = new DataView(buffer).getUint32(0, true), begin = 4 + size;
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, size));
  return JSON.parse(text, (_, value) => {
    const column = value?.$column;
    return Array.isArray(column) ? new KINDS[column[0]](buffer, begin + column[1], column[2]) : value;
  });
}
