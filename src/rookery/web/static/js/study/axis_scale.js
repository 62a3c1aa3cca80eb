// Where values are along an axis: numbers, numbers on a logarithmic scale, or choices.

import { number, short } from "../format.js";

/**
 * A scale from values to 0..1, with its marks: scale({low, high, log, choices, text}) gives {place(value),
 * value(place), marks: [[value, text]], text(value)}. The value of a choice is its place in the list of choices.
 */
export function scale({ low, high, log = false, choices = null, text = short }) {
  if (choices) return choiceScale(choices);
  if (!(Number.isFinite(low) && Number.isFinite(high))) [low, high] = [0, 1];
  if (log && low > 0) return logScale(low, high);
  const room = low === high ? (Math.abs(low) || 1) * 0.05 : 0, from = low - room, span = high + room - from;
  return {
    place: (value) => (value - from) / span, value: (at) => from + at * span, text: number,
    marks: steps(from, from + span).map((value) => [value, text(value)]),
  };
}

function choiceScale(choices) {
  const size = choices.length, text = (place) => choiceText(choices[place]);
  const marks = choices.map((_, i) => [i, text(i)]);
  return { place: (value) => (value + 0.5) / size, value: (at) => at * size - 0.5, marks, text, choices };
}

function choiceText(choice) {
  if (choice === null) return "none";
  return typeof choice === "object" ? JSON.stringify(choice) : String(choice);
}

function logScale(low, high) {
  const from = Math.log10(low), span = Math.log10(high) - from || 1, marks = [];
  const every = Math.max(1, Math.ceil(span / 5)), end = from + span + 1e-9;
  for (let power = Math.ceil(from - 1e-9); power <= end; power += every) {
    marks.push([10 ** power, power < -2 ? `1e${power}` : short(10 ** power)]);
  }
  if (marks.length < 2) for (const value of steps(low, high)) if (value > 0) marks.push([value, short(value)]);
  const place = (value) => (Math.log10(value) - from) / span;
  return { place, value: (at) => 10 ** (from + at * span), marks, text: number };
}

/** Round numbers between two values, about six. */
export function steps(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough)), found = [];
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough - power * 1e-9);
  const last = high + step * 1e-9;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= last; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/** The smallest and largest of the known values at these places. */
export function extent(column, places) {
  let low = Infinity, high = -Infinity;
  for (const i of places) {
    const value = column[i]; // neither of an unknown one, NaN
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** With some room at both ends. */
export function roomy([low, high], share = 0.04) {
  const room = (high - low) * share;
  return { low: low - room, high: high + room };
}
