// A report has no server: what the pages ask for is answered by what was recorded in this file.
(() => {
  const recorded = JSON.parse(document.getElementById("recorded").textContent);
  const unknown = { error: "this is not in the report: the dashboard has it" };

  function answer(url) {
    const words = url.pathname.split("/").slice(2).map(decodeURIComponent), query = url.searchParams;
    if (words[0] === "session") return { csrf: "", allow_control: false };
    if (words[0] === "sparks") return recorded.sparks;
    if (words[0] === "compare") return compared(query);
    if (words[0] === "markets") return market(words, query);
    if (words[0] !== "runs") return null;
    if (words.length === 1) return { runs: recorded.rows, cursor: "" };
    const run = recorded.runs[`${words[1]}/${words[2]}`];
    if (!run) return null;
    if (words.length === 3) return run.details;
    if (words[3] === "diff") return difference(`${words[1]}/${words[2]}`, query.get("with"));
    if (words[3] === "metrics") return words.length === 4 ? run.metrics : curves(run, query);
    return ["episodes", "changed"].includes(words[3]) ? run[words[3]] : null;
  }

  /** The curves of the names that are requested, between two places; several recorded parts may have other points. */
  function curves(run, query) {
    const names = new Set(query.get("names").split(",")), series = {};
    let x = [], range = null;
    for (const part of run.curves[query.get("x") ?? "steps"]) {
      const own = Object.keys(part.series).filter((name) => names.has(name));
      if (!own.length) continue;
      range ??= part.range;
      if (!x.length) x = part.x;
      for (const name of own) series[name] = part.x === x ? part.series[name] : placed(x, part.x, part.series[name]);
    }
    return { ...between(x, series, query), exact: true, range };
  }

  /** The settings in which two runs differ, each as [of the one, of the other], by what each has unlike the first. */
  function difference(one, other) {
    const mine = recorded.diffs[one], theirs = recorded.diffs[other], found = {};
    if (!mine || !theirs) return null;
    for (const key of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
      const [first] = mine[key] ?? theirs[key], [a, b] = [mine, theirs].map((own) => (own[key] ?? [first, first])[1]);
      if (JSON.stringify(a) !== JSON.stringify(b)) found[key] = [a, b];
    }
    return found;
  }

  function placed(x, own, values) {
    const at = new Map(own.map((place, i) => [place, values[i]]));
    return x.map((place) => at.get(place) ?? null);
  }

  function between(x, series, query) {
    const from = query.has("from") ? Number(query.get("from")) : -Infinity;
    const to = query.has("to") ? Number(query.get("to")) : Infinity;
    const inside = x.map((place) => from <= place && place <= to), kept = (list) => list.filter((_, i) => inside[i]);
    return { x: kept(x), series: Object.fromEntries(Object.entries(series).map(([name, list]) => [name, kept(list)])) };
  }

  function compared(query) {
    const metric = query.get("metric") ?? "eval/return", axis = query.get("x") ?? "steps";
    const ids = (query.get("ids") ?? "").split(",").map(decodeURIComponent).filter((id) => recorded.runs[id]);
    const bands = query.get("bands") === "seeds" ? bandsOf(ids, metric, axis) : [];
    const inBands = new Set(bands.flatMap((band) => band.ids));
    return { curves: [...bands, ...ids.filter((id) => !inBands.has(id)).map((id) => single(id, metric, axis))] };
  }

  /** A band is of all its seeds: without one of them, the others are drawn as they are. */
  function bandsOf(ids, metric, axis) {
    const chosen = new Set(ids);
    return (recorded.bands?.[axis]?.[metric] ?? []).filter((band) => band.ids.every((id) => chosen.has(id)));
  }

  function single(id, metric, axis) {
    const asked = new URLSearchParams({ names: metric, x: axis }), found = curves(recorded.runs[id], asked);
    const points = found.x.map((x, i) => [x, found.series[metric]?.[i] ?? null]).filter(([, y]) => y !== null);
    return { id, label: id.split("/")[1], x: points.map(([x]) => x), y: points.map(([, y]) => y) };
  }

  /** The list of backtests, or the figures or curves of one. */
  function market([, place, name, what], query) {
    if (!place) return { backtests: recorded.markets?.list ?? [], registries: [], papers: [] };
    const found = recorded.markets?.of?.[`${place}/${name}`];
    if (what !== "series") return what === "report" ? found?.report ?? null : null;
    const account = found?.series[query.get("accounts")];
    return account ? { ...account, ...between(account.x, account.series, query) } : null;
  }

  globalThis.fetch = async (address) => {
    const found = answer(new URL(address, "http://report"));
    return new Response(JSON.stringify(found ?? unknown), { status: found ? 200 : 404 });
  };

  /** Nothing happens any more: the table's stream tells its rows once. */
  globalThis.EventSource = class extends EventTarget {
    constructor(address) {
      super();
      const rows = JSON.stringify({ rows: recorded.rows, gone: [], all: true });
      if (new URL(address, "http://report").pathname !== "/api/stream") return;
      setTimeout(() => this.dispatchEvent(new MessageEvent("rows", { data: rows })));
    }

    close() {}
  };
})();
