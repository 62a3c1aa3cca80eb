// Figures of accounts as text.

import { number } from "../format.js";

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** 0.1234 -> "12.3 %". */
export function share(value) {
  if (!known(value)) return "–";
  const size = Math.abs(100 * value), digits = size >= 100 ? 0 : size >= 1 || size === 0 ? 1 : 2;
  const text = (100 * value).toFixed(digits);
  return `${Number(text) === 0 ? text.replace("-", "") : text} %`;
}

/** 0.1234 -> "+12.3 %". */
export const gain = (value) => (known(value) && value > 0 ? `+${share(value)}` : share(value));

/** An amount of the account's currency: 1,234 or 12.34. */
export const money = (value) => (known(value) && Math.abs(value) < 1000 ? value.toFixed(2) : number(value));

/** A ratio such as Sharpe's. */
export const ratio = (value) => (known(value) ? value.toFixed(2) : "–");

/** How an account's costs are named. */
export const COST_KINDS = { fees: "Fees", spread: "Spread", impact: "Impact, slippage", funding: "Funding, swap" };

/** How those are named whose value is drawn. */
export const STRATEGIES = {
  agent: "Agent", hold: "Hold", equal_weight: "Equal weight", prices: "Prices, equal parts, no costs",
};

/** How the state of a paper account looks: as that of a run. */
export const stateClass = (state) => (state?.startsWith("stopped") ? "failed" : (state ?? "").replace(/ /g, "-"));
