// Columns of numbers for a chart: x ascending, one column per curve, null where a curve has no value.

/** The columns of `names` in an answer of /metrics/data, without rows in which none of them has a value. */
export function pick(answer, names) {
  const found = names.map((name) => answer.series[name] ?? []);
  const rows = answer.x.map((_, i) => i).filter((i) => found.some((column) => column[i] != null));
  return [rows.map((i) => answer.x[i]), ...found.map((column) => rows.map((i) => column[i] ?? null))];
}

/**
 * Add a row at the end. Values that are there already (an event that came by the stream and in the answer) are left
 * alone. Returns whether something is new; a row before the end is never inserted.
 */
export function append(columns, x, values) {
  const [xs, ...curves] = columns, last = xs.length ? xs[xs.length - 1] : -Infinity;
  if (x < last || values.every((value) => value == null)) return false;
  if (x === last) return merge(curves, values, xs.length - 1);
  xs.push(x);
  curves.forEach((column, i) => column.push(values[i] ?? null));
  return true;
}

function merge(curves, values, row) {
  let changed = false;
  curves.forEach((column, i) => {
    if (column[row] != null || values[i] == null) return;
    column[row] = values[i];
    changed = true;
  });
  return changed;
}

/** A column in which each gap has the value before it; gaps at the start are 0. */
export function filled(column) {
  let last = 0;
  return column.map((value) => (last = value ?? last));
}

/** Columns of shares, one on top of the other, each row adding up to 1: [x, top of the last, ..., top of the first]. */
export function stacked(columns) {
  const [xs, ...curves] = columns, shares = curves.map(filled);
  const totals = xs.map((_, row) => shares.reduce((sum, column) => sum + column[row], 0) || 1);
  const tops = [];
  shares.forEach((column, k) => tops.push(column.map((v, row) => v / totals[row] + (k ? tops[k - 1][row] : 0))));
  return { data: [xs, ...tops.toReversed()], shares: shares.map((column) => column.map((v, row) => v / totals[row])) };
}

/** Leave out rows after `x`: a run that was resumed repeats them. */
export function cut(columns, x) {
  const keep = columns[0].findIndex((value) => value > x);
  return keep < 0 ? columns : columns.map((column) => column.slice(0, keep));
}
