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
 * answer that is not a stream, such as one of a server that is just starting: then it is opened again here.
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

// Asking again and again, as long as somebody looks; and drawing what has come into sight.

const FIRST_MS = 1500, LOST_MS = 3000;

/** Call `ask` again and again; it returns after how many milliseconds. A server that is away is queried later. */
export function poll(signal, ask, first = FIRST_MS) {
  let timer = 0, ended = false;
  const next = (wait) => { if (!ended && !signal.aborted) timer = setTimeout(turn, wait); };

  async function turn() {
    if (document.hidden) return next(1000);
    try {
      next(await ask());
    } catch (error) {
      if (error.name !== "AbortError") next(LOST_MS);
    }
    return undefined;
  }

  next(first);
  return () => { ended = true; clearTimeout(timer); };
}

/** A function that calls the last thing it was given, once the element is in sight, and from then on at once. */
export function onceVisible(element) {
  let seen = false, latest = null;
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen = true;
    watch.disconnect();
    latest?.();
  }, { rootMargin: "150px" });
  watch.observe(element);
  return (draw) => {
    latest = draw;
    if (seen) draw();
  };
}
