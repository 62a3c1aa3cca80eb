// Numbers, durations and dates as text.

const grouped = new Intl.NumberFormat("en");

/** 1234567 -> "1,234,567"; unknown -> "–". */
export const count = (value) => (known(value) ? grouped.format(Math.round(value)) : "–");

/** A figure with four digits: 0.01234, 12.34, 1,234. */
export function number(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return grouped.format(Math.round(value));
  if (size !== 0 && size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** 1234567 -> "1.23 M". */
export function short(value) {
  if (!known(value)) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  return number(value);
}

/** Seconds as "1 h 03 min". */
export function duration(seconds) {
  if (!known(seconds)) return "–";
  const s = Math.round(seconds);
  if (seconds > 0 && seconds < 0.1) return `${Number((1000 * seconds).toPrecision(2))} ms`;
  if (s < 60) return seconds < 10 ? `${Number(seconds.toFixed(1))} s` : `${s} s`;
  const m = Math.floor(s / 60), two = (n) => String(n).padStart(2, "0");
  if (m < 60) return `${m} min ${two(s % 60)} s`;
  const hours = Math.floor(m / 60);
  return hours < 48 ? `${hours} h ${two(m % 60)} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const percent = (share) => (known(share) ? `${Math.round(100 * share)} %` : "–");

/** Unix seconds as a local date and time. */
export const when = (time) => (known(time) ? new Date(1000 * time).toLocaleString() : "–");

/** Unix seconds as a short local moment: the time today, else the day too. */
export function moment(time) {
  if (!known(time)) return "–";
  const date = new Date(1000 * time), now = new Date();
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === now.toDateString()) return `today ${clock}`;
  if (date.getFullYear() !== now.getFullYear()) return date.toLocaleDateString("en-GB",
    { day: "numeric", month: "short", year: "numeric" });
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/** Unix seconds as a date and time of UTC: "2024-03-05 14:00". Bars of a market have such times. */
export const utc = (time) => (known(time) ? new Date(1000 * time).toISOString().slice(0, 16).replace("T", " ") : "–");

export function bytes(value) {
  if (!known(value)) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  return `${value} B`;
}

/** What the x axis of curves of runs may be. */
export const AXES = {
  steps: { label: "steps", text: short },
  time: { label: "time", text: duration },
  episodes: { label: "episodes", text: short },
};

const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));
