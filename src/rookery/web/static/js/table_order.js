// The order of a table's rows.

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const isKnown = (value) => value !== null && value !== undefined && value !== "" && !Number.isNaN(value);

/** Rows in the order of a column. What is unknown comes last in both directions; equal rows keep their order. */
export function ordered(rows, column, descending) {
  const known = [], unknown = [];
  for (const row of rows) {
    const value = valueOf(column, row);
    (isKnown(value) ? known : unknown).push([value, row]);
  }
  const sign = descending ? -1 : 1;
  known.sort(([a], [b]) => sign * compare(a, b));
  return [...known, ...unknown].map(([, row]) => row);
}

/** What a column says of a row: by its function, or the row's own entry of that name. */
export const valueOf = (column, row) => (column.value ? column.value(row) : row[column.key]);

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}
