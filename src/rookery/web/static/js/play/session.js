// The socket of a session: frames come, orders go. A frame is answered once it is drawn, so that none queue up.

/**
 * Open a session. `handlers`: onLoading(), onReady(facts), onFrame(frame, image or null), onEnd(sentence).
 * Returns {send(order), seen(n), close()}. An order is {pause, step, speed, deterministic, seed, keys}.
 */
export function openSession(query, { onLoading, onReady, onFrame, onEnd }) {
  const url = new URL("/api/play", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const socket = new WebSocket(url);
  let ended = false, sentence = null, tiles = null;
  socket.binaryType = "arraybuffer";
  socket.onmessage = async ({ data }) => {
    const [message, bytes] = typeof data === "string" ? [JSON.parse(data), null] : parts(data);
    if (message.kind === "error") sentence ??= message.error; // the first says why; the process ends after it
    else if (message.kind === "loading") onLoading();
    else if (message.kind === "ready") { tiles = message.tiles; onReady(message); }
    else onFrame(message, bytes && await createImageBitmap(new Blob([bytes], { type: tiles.format })));
  };
  socket.onclose = () => { if (!ended) onEnd(sentence ?? "the connection to the dashboard is lost"); ended = true; };
  const send = (order) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(order)); };
  return { send, seen: (n) => send({ seen: n }), close() { ended = true; socket.close(); } };
}

/** A binary message: the length of its JSON, the JSON, the image. */
function parts(data) {
  const length = new DataView(data).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(data, 4, length));
  return [JSON.parse(text), new Uint8Array(data, 4 + length)];
}
