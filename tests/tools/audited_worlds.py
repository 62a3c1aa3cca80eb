"""Tiny market worlds for the audit: some know the future, in different ways, and some do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

WINDOW, START = 4, 20
Features = Callable[[dict[str, np.ndarray]], np.ndarray]


def returns(close: np.ndarray) -> np.ndarray:
    return np.diff(np.log(close), prepend=np.log(close[0]))


def rolling(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """The mean of the last rows."""
    padded = np.concatenate([np.full(width - 1, values[0]), values])
    return np.lib.stride_tricks.sliding_window_view(padded, width).mean(axis=1)


class Market(gym.Env):
    """Orders are decided on the close of a row and filled at the next open."""

    features: ClassVar[Features] = staticmethod(lambda bars: returns(bars["close"]))
    fee = 0.001
    lag = 0  # rows by which an observation is late
    discrete = False
    logarithmic = False
    orders = False  # whether an action adds to the position

    def __init__(self, data: Any, episode_length: int = 60) -> None:
        self.bars = {name: np.asarray(data[name], float) for name in ("open", "high", "low", "close", "volume")}
        self.shown = np.atleast_2d(type(self).features(self.bars).T).T
        self.length = episode_length
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.shown.shape[1] + 1,))
        self.action_space = spaces.Discrete(3) if self.discrete else spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.row, self.position, self.equity = self.first_row(), 0.0, 1.0
        return self.observe(), {}

    def first_row(self) -> int:
        return START

    def observe(self) -> Any:
        return np.append(self.shown[self.row - self.lag], self.position)

    def target(self, action: Any) -> float:
        wanted = float(action) - 1 if self.discrete else float(np.asarray(action).reshape(-1)[0])
        return float(np.clip(self.position + wanted, -1, 1)) if self.orders else wanted

    def earned(self, target: float) -> float:
        """What a bar earns, as a part of the account."""
        opened, close, row = self.bars["open"], self.bars["close"], self.row
        held = self.position * (opened[row + 1] / close[row] - 1)
        return held + target * (close[row + 1] / opened[row + 1] - 1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        target = self.target(action)
        gain = self.earned(target) - self.fee * abs(target - self.position)
        self.position, self.equity = target, self.equity * (1 + gain)
        self.row += 1
        ended = self.row >= START + self.length
        reward = float(np.log(max(1 + gain, 1e-9))) if self.logarithmic else gain
        return self.observe(), reward, self.ends(), ended, {"equity": self.equity}

    def ends(self) -> bool:
        return self.equity < 0.05


def world(base: type[Market] = Market, **members: Any) -> type[Market]:
    """A market with other members; functions of bars become features."""
    if "features" in members:
        members["features"] = staticmethod(members["features"])
    return type("World", (base,), members)


# --- worlds that know the future --------------------------------------------------------------------------------------


class SameClose(Market):
    """Filled at the close that the observation shows."""

    def earned(self, target: float) -> float:
        close = self.bars["close"]
        return target * (close[self.row + 1] / close[self.row] - 1)


class KnownOpen(Market):
    """The observation shows the next open, at which the order is filled."""

    def observe(self) -> Any:
        return np.append(self.bars["open"][self.row + 1] / self.bars["close"][self.row], self.position)


class LowToHigh(Market):
    """Bought at the low of a row and sold at its high."""

    def earned(self, target: float) -> float:
        return abs(target) * (self.bars["high"][self.row + 1] / self.bars["low"][self.row + 1] - 1)


class BestOfTheBar(Market):
    """Bought at the low, or sold at the high, and valued at the close."""

    def earned(self, target: float) -> float:
        filled = self.bars["low" if target > 0 else "high"][self.row + 1]
        return target * (self.bars["close"][self.row + 1] / filled - 1)


class ForwardReward(Market):
    """Paid by the return of the next ten rows."""

    def earned(self, target: float) -> float:
        return target * (self.bars["close"][self.row + 10] / self.bars["open"][self.row + 1] - 1)


class EndsBeforeCrash(Market):
    """The episode ends before a fall that is ten rows ahead."""

    def ends(self) -> bool:
        close = self.bars["close"]
        return bool(self.row > START + 3 and close[self.row + 10] < 0.97 * close[self.row])


class TellingInfo(Market):
    """The info contains what is to come."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        *found, info = super().step(action)
        close = self.bars["close"]
        return *found, {**info, "trend": close[self.row + 10] / close[self.row]}  # type: ignore[return-value]


class ResetTells(Market):
    """Only the first observation shows the mean of all rows."""

    def observe(self) -> Any:
        shown = self.bars["close"].mean() if self.row == START else self.bars["close"][self.row]
        return np.array([shown, self.position])


def shifted(values: np.ndarray, rows: int) -> np.ndarray:
    return np.append(values[rows:], np.full(rows, values[-1]))


def centred(bars: dict[str, np.ndarray]) -> np.ndarray:
    return np.convolve(returns(bars["close"]), np.ones(5) / 5, "same")


def detrended(bars: dict[str, np.ndarray]) -> np.ndarray:
    rows = np.arange(len(bars["close"]))
    return np.log(bars["close"]) - np.polyval(np.polyfit(rows, np.log(bars["close"]), 1), rows)


def low_pass(bars: dict[str, np.ndarray]) -> np.ndarray:
    spectrum = np.fft.rfft(returns(bars["close"]))
    spectrum[20:] = 0
    return np.fft.irfft(spectrum, len(bars["close"]))


def backfilled(bars: dict[str, np.ndarray]) -> np.ndarray:
    """Every other value is missing, and is taken from the row after it."""
    values = returns(bars["close"])
    values[:-1:2] = values[1::2]
    return values


def early_bars(bars: dict[str, np.ndarray]) -> np.ndarray:
    """Each row shows the return of the bar of four rows that it is in."""
    close = bars["close"][: len(bars["close"]) // 4 * 4].reshape(-1, 4)
    return np.repeat(close[:, -1] / close[:, 0], 4)


def regressed(bars: dict[str, np.ndarray]) -> np.ndarray:
    moves = returns(bars["close"])
    return moves * (moves[:-1] @ moves[1:] / (moves @ moves))


def ahead_extremes(bars: dict[str, np.ndarray]) -> np.ndarray:
    ahead = np.minimum.accumulate(bars["low"][::-1])[::-1]
    return ahead / bars["close"]


def ranks(bars: dict[str, np.ndarray]) -> np.ndarray:
    return np.array([(bars["close"] < close).mean() for close in bars["close"]])


def volatility_ahead(bars: dict[str, np.ndarray]) -> np.ndarray:
    return shifted(rolling(np.abs(returns(bars["close"]))), 3)


def pivots(bars: dict[str, np.ndarray]) -> np.ndarray:
    """1 at a close that is the highest of five, -1 at the lowest: the last two of them come later."""
    five = np.lib.stride_tricks.sliding_window_view(np.pad(bars["close"], 2, "edge"), 5)
    return 1.0 * (bars["close"] == five.max(axis=1)) - (bars["close"] == five.min(axis=1))


def beside_returns(features: Features) -> Features:
    return lambda bars: np.stack([features(bars), returns(bars["close"])], axis=1)


def highest(bars: dict[str, np.ndarray]) -> np.ndarray:
    return bars["close"] == bars["close"].max()


def legs(bars: dict[str, np.ndarray], late: bool) -> np.ndarray:
    """Whether prices are in a leg that goes up. A leg ends at an extreme, which shows when they have turned by 6 %;
    `late` is what was known then."""
    close = np.log(bars["close"])
    up, extreme, shown = True, 0, np.zeros(len(close))
    for k in range(1, len(close)):
        if (close[k] > close[extreme]) == up:
            extreme = k
        elif abs(close[k] - close[extreme]) > 0.06:
            shown[extreme + 1 : k] = shown[extreme + 1 : k] if late else not up
            up, extreme = not up, k
        shown[k] = up
    return shown


def first_barrier(bars: dict[str, np.ndarray]) -> np.ndarray:
    """Whether prices rise or fall by 8 % first."""
    moves = np.log(bars["close"]) - np.log(bars["close"])[:, None]
    reached = np.triu(np.abs(moves) > 0.08)
    return np.sign(moves[np.arange(len(moves)), reached.argmax(axis=1)])


def informed(tell: Callable[[Market], float], **members: Any) -> type[Market]:
    """A market whose info tells something more."""

    class Informed(Market):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
            *found, info = super().step(action)
            return *found, {**info, "told": tell(self)}  # type: ignore[return-value]

    return world(Informed, **members)


class OneStep(Market):
    """The next close is shown once."""

    def observe(self) -> Any:
        return np.array([self.bars["close"][self.row + (self.row == START + 7)], self.position])


class ToldByPosition(Market):
    """The position is a little larger if prices will rise."""

    def observe(self) -> Any:
        rises = self.bars["close"][self.row + 1] > self.bars["close"][self.row]
        return np.append(self.position + 0.01 * rises, self.shown[self.row])


class EndsAtPeak(Market):
    """The episode ends when prices will never be higher."""

    def ends(self) -> bool:
        return bool(self.row > START + 4 and self.bars["close"][self.row] >= self.bars["close"][self.row :].max())


class BestStart(Market):
    """The episode starts before the largest rise."""

    def first_row(self) -> int:
        rows = np.arange(START, START + 20)
        return int(rows[np.argmax(self.bars["close"][rows + 5] / self.bars["close"][rows])])


LEAKS: dict[str, tuple[type[Market], str]] = {
    "a centred window": (world(features=centred), "observation"),
    "normalised by all rows": (world(features=lambda b: b["close"] / b["close"].std()), "observation"),
    "scaled to the range of all rows": (world(features=lambda b: b["close"] / np.ptp(b["close"])), "observation"),
    "ranked among all rows": (world(features=ranks), "observation"),
    "the next return": (world(features=lambda b: shifted(returns(b["close"]), 1)), "observation"),
    "the sign of the next return": (world(features=lambda b: np.sign(shifted(returns(b["close"]), 1))), "observation"),
    "the next close": (world(features=lambda b: shifted(b["close"], 1)), "observation"),
    "the next high and low": (world(features=lambda b: shifted((b["high"] - b["low"]) / b["low"], 1)), "observation"),
    "rolled, so that the end comes first": (world(features=lambda b: np.roll(b["close"], -1)), "observation"),
    "volatility of the next rows": (world(features=volatility_ahead), "observation"),
    "filled backwards": (world(features=backfilled), "observation"),
    "resampled bars, early": (world(features=early_bars), "observation"),
    "detrended over all rows": (world(features=detrended), "observation"),
    "low pass over all rows": (world(features=low_pass), "observation"),
    "a coefficient fitted to all rows": (world(features=regressed), "observation"),
    "the lowest price to come": (world(features=ahead_extremes), "observation"),
    "shown at reset only": (ResetTells, "observation"),
    "filled at the same close": (SameClose, "fill"),
    "filled at a known open": (KnownOpen, "fill"),
    "from the low to the high": (LowToHigh, "fill"),
    "filled at the best of the bar": (BestOfTheBar, "fill"),
    "a reward of ten rows": (ForwardReward, "reward"),
    "an end before a crash": (EndsBeforeCrash, "end"),
    "a telling info": (TellingInfo, "info"),
    "turns as they happen": (world(features=pivots), "observation"),
    "turns beside returns": (world(features=beside_returns(pivots)), "observation"),
    "legs by their extremes": (world(features=lambda b: legs(b, late=False)), "observation"),
    "the barrier that is reached first": (world(features=first_barrier), "observation"),
    "the highest close of all": (world(features=beside_returns(highest)), "observation"),
    "shown once": (OneStep, "observation"),
    "told by the position": (ToldByPosition, "observation"),
    "a start before a rise": (BestStart, "observation"),
    "an end at the peak": (EndsAtPeak, "end"),
    "an info of the next close": (informed(lambda m: m.bars["close"][m.row + 1]), "info"),
    "an info of a turn": (informed(lambda m: pivots(m.bars)[m.row]), "info"),
}  # fmt: skip


# --- worlds that do not -----------------------------------------------------------------------------------------------


class LateClose(Market):
    """Filled at the close of a row that the observation does not show yet."""

    lag = 1

    def earned(self, target: float) -> float:
        close = self.bars["close"]
        return target * (close[self.row + 1] / close[self.row] - 1)


class LateReward(Market):
    """A position earns in the step after its order; the fee is paid at once."""

    def earned(self, target: float) -> float:
        opened = self.bars["open"]
        return self.position * (opened[self.row + 1] / opened[self.row] - 1)


class RandomStart(Market):
    def first_row(self) -> int:
        return int(self.np_random.integers(START, START + 50))


class DictObservation(Market):
    def observe(self) -> Any:
        return {"bars": self.shown[self.row - WINDOW : self.row + 1, 0], "account": np.array([self.position])}


class WholeBars(Market):
    """Shows the last bar of four rows that is complete."""

    def observe(self) -> Any:
        end = (self.row + 1) // 4 * 4
        close = self.bars["close"]
        return np.array([close[end - 1] / close[end - 4], self.position])


class StopLoss(Market):
    def ends(self) -> bool:
        return self.equity < 0.9


class EquityReward(Market):
    """The reward is the change of the account in money."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        before = self.equity
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 1e5 * (self.equity - before), terminated, truncated, info


def expanding(bars: dict[str, np.ndarray]) -> np.ndarray:
    moves, rows = returns(bars["close"]), np.arange(1, len(bars["close"]) + 1)
    return moves / np.sqrt(np.cumsum(moves**2) / rows + 1e-9)


def exponential(bars: dict[str, np.ndarray]) -> np.ndarray:
    made = np.empty(len(bars["close"]))
    value = bars["close"][0]
    for k, close in enumerate(bars["close"]):
        made[k] = value = 0.8 * value + 0.2 * close
    return bars["close"] / made


def by_the_first_rows(bars: dict[str, np.ndarray]) -> np.ndarray:
    """Normalised by rows before the first episode."""
    moves = returns(bars["close"])
    return (moves - moves[:START].mean()) / moves[:START].std()


def confirmed(bars: dict[str, np.ndarray]) -> np.ndarray:
    return np.append(np.zeros(2), pivots(bars)[:-2])


def above_average(bars: dict[str, np.ndarray]) -> np.ndarray:
    return 1.0 * (exponential(bars) > 1)


class NextClose(Market):
    """Filled at the close of the next row."""

    waiting = 0.0

    def earned(self, target: float) -> float:
        held, self.waiting = self.waiting if self.row > START else 0.0, target
        return held * (self.bars["close"][self.row + 1] / self.bars["close"][self.row] - 1)


class FarLimit(Market):
    """Bought or sold a quarter away from the open, if the row gets there, and valued at the close; and at the open."""

    def earned(self, target: float) -> float:
        opened, close, low, high = (self.bars[name][self.row + 1] for name in ("open", "close", "low", "high"))
        price = opened * (0.75 if target > 0 else 1.25)
        waited = target * (close / price - 1) if low < price < high else 0.0
        return super().earned(target) + waited


class StoppedAtTheWorst(Market):
    """A position is closed at the worst price of a row that falls by a fifth."""

    def earned(self, target: float) -> float:
        opened, low, high = (self.bars[name][self.row + 1] for name in ("open", "low", "high"))
        worst = target * ((low if target > 0 else high) / opened - 1)
        return max(worst, -0.9) if worst < -0.2 else super().earned(target)


CLEAN: dict[str, type[Market]] = {
    "returns": Market,
    "prices": world(features=lambda b: b["close"]),
    "a window": world(features=lambda b: rolling(returns(b["close"]))),
    "all columns": world(features=lambda b: np.stack(list(b.values()), axis=1)),
    "volume": world(features=lambda b: np.stack([b["volume"], returns(b["close"])], axis=1)),
    "normalised by the past": world(features=expanding),
    "a moving average": world(features=exponential),
    "normalised by the first rows": world(features=by_the_first_rows),
    "late by one row": world(lag=1),
    "late by two rows": world(lag=2),
    "filled at a later close": LateClose,
    "paid a step later": LateReward,
    "three actions": world(discrete=True),
    "orders": world(discrete=True, orders=True),
    "logarithmic": world(logarithmic=True),
    "without fees": world(fee=0.0),
    "high fees": world(fee=0.005),
    "a random start": RandomStart,
    "a dict": DictObservation,
    "whole bars of four rows": WholeBars,
    "a stop": StopLoss,
    "in money": EquityReward,
    "turns, when they are confirmed": world(features=confirmed),
    "legs, as they were known": world(features=lambda b: legs(b, late=True)),
    "above an average": world(features=above_average),
    "the highest close so far": world(features=lambda b: 1.0 * (b["close"] >= np.maximum.accumulate(b["close"]))),
    "filled at the next close": NextClose,
    "a limit that is far away": FarLimit,
    "a stop at the worst price": StoppedAtTheWorst,
    "an info of the close": informed(lambda m: m.bars["close"][m.row]),
    "an info of the close, late by two rows": informed(lambda m: m.bars["close"][m.row], lag=2),
    "an info of the fill": informed(lambda m: m.bars["open"][m.row]),
}
