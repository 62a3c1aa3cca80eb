// uPlot is not a module. It is loaded by the first view that draws curves; a report has it inside.

function load(address) {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => done(globalThis.uPlot);
    script.onerror = () => failed(new Error("the dashboard does not answer"));
    document.head.append(script);
  });
}

export const uPlot = globalThis.uPlot ?? await load("/static/vendor/uPlot.iife.min.js");
