// Server-sent events that survive a server's restart: the last id goes with every new connection.

const listeners = new Set();
let connected = null;

/** Call `tell(true | false)` whenever the connection is there or lost. */
export function onConnection(tell) {
  listeners.add(tell);
  if (connected !== null) tell(connected);
}

function say(state) {
  if (connected === state) return;
  connected = state;
  for (const tell of listeners) tell(state);
}

/**
 * Follow a stream: `handlers` has one function per kind of event, which gets the parsed data. `lost` is called whenever
 * the stream ends or does not open. Returns a function that ends it. The browser closes a stream for good after an
 * answer that is no stream, such as one of a server that is just starting: then it is opened anew here.
 */
export function follow(path, handlers, lost = () => {}) {
  let source = null, lastId = "", wait = 250, timer = 0, ended = false;
  const open = () => {
    const url = new URL(path, location.href);
    if (lastId) url.searchParams.set("last_event_id", lastId);
    source = new EventSource(url);
    source.onopen = () => { wait = 250; say(true); };
    source.onerror = () => {
      say(false);
      source.close();
      lost();
      if (!ended) timer = setTimeout(open, wait);
      wait = Math.min(4000, wait * 2);
    };
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId) lastId = event.lastEventId;
        handle(JSON.parse(event.data));
      });
    }
  };
  open();
  return () => { ended = true; clearTimeout(timer); source.close(); };
}
