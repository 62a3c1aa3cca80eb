// Asking again and again, as long as somebody looks; and drawing what has come into sight.

const FIRST_MS = 1500, LOST_MS = 3000;

/** Call `ask` again and again; it returns after how many milliseconds. A server that is away is asked later. */
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
