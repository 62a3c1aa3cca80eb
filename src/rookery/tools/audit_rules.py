"""The comparisons of a look-ahead audit: one world, played again and again on bars that differ after some moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.world import KernelWorld
from rookery.tools.audit_data import Future, Table

PROBED = (0, 1, 2, 5, 8, 11, 14, 19)  # steps at which orders are compared, besides those that know most
MOST_AHEAD = 4  # steps
NEAR = 10  # positions after what an observation is found to know, at which it is compared as well
HORIZON = 4  # steps within which an order shows in the reward
COUNTS = 0.4  # of the largest effect of an order: less is a cost, not what it earns
FACTOR, MOST_GAIN = 1.5, 6.0  # prices jump by a half; an order that earns six times as much was filled before the jump
LATE = 5  # positions by which a reward may be ahead of the next observation: observations may be delayed


@dataclass(frozen=True)
class Leak:
    """What knew the future.

    Attributes:
        kind: "observation", "fill", "reward", "end" (of the episode) or "info".
        step: The first step at which it shows, counted from the reset.
        row: The last row of the bars that it knew of.
        what: Which number, such as "observation[3]" or "info['signal']".
        text: One sentence.
    """

    kind: str
    step: int
    row: int
    what: str
    text: str


class Trace:
    """What one episode has shown."""

    def __init__(self) -> None:
        self.observations: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.ends: list[bool] = []
        self.infos: list[dict[str, float]] = []


class AuditedWorld:
    """A world that is made again and again with other bars."""

    def __init__(
        self, made: Any, option: str, names: list[str], rows: int, table: Table, options: Mapping[str, Any], seed: int
    ) -> None:
        self._made, self._option, self._table, self._options, self.seed = made, option, table, dict(options), seed
        self.future = Future(names, rows, seed)
        self.episodes = 0
        self.action_space: Any = None

    def play(self, columns: dict[str, np.ndarray], actions: Sequence[Any]) -> Trace:
        self.episodes += 1
        env = self._made(**{self._option: self._table(columns)}, **self._options)
        if isinstance(env, KernelWorld):
            env = KernelEnv(env)
        self.action_space = env.action_space
        trace = Trace()
        observation, _ = env.reset(seed=self.seed)
        trace.observations.append(flat(observation))
        for action in actions:
            observation, reward, terminated, truncated, info = env.step(action)
            trace.observations.append(flat(observation))
            trace.rewards.append(float(reward))
            trace.ends.append(bool(terminated or truncated))
            trace.infos.append(_numbers(info))
            if trace.ends[-1]:
                break
        if callable(close := getattr(env, "close", None)):  # an env may call its prices so
            close()
        return trace


def flat(observation: Any) -> np.ndarray:
    """All numbers of an observation."""
    if isinstance(observation, Mapping):
        observation = [observation[key] for key in sorted(observation)]
    if isinstance(observation, (tuple, list)) and not np.isscalar(observation):
        parts = [flat(part) for part in observation]
        return np.concatenate(parts) if parts else np.empty(0)
    return np.array(observation, np.float64).reshape(-1)


def _numbers(info: Mapping[str, Any]) -> dict[str, float]:
    kinds = (bool, int, float, np.number, np.bool_)
    return {str(key): float(value) for key, value in info.items() if isinstance(value, kinds)}


class Comparisons:
    """All comparisons of one world."""

    def __init__(self, world: AuditedWorld, steps: int, seed: int) -> None:
        self.world, self.future = world, world.future
        self._traces: dict[int, list[Trace]] = {}
        first = world.play(self.future.changed(self.future.end), [])
        world.action_space.seed(seed)
        self.actions = [world.action_space.sample() for _ in range(steps)]
        self.usual = world.play(self.future.changed(self.future.end), self.actions)
        self._refuse_random(first)
        self.actions = self.actions[: len(self.usual.rewards)]
        self.leaks: dict[str, Leak] = {}

    def _refuse_random(self, first: Trace) -> None:
        again = self.world.play(self.future.changed(self.future.end), self.actions)
        same = len(again.rewards) == len(self.usual.rewards) and again.rewards == self.usual.rewards
        pairs = zip(again.observations, self.usual.observations, strict=False)
        if not same or not all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
            raise WorldError("the world plays another episode with the same seed and actions: it cannot be audited")
        if not len(first.observations[0]):
            raise WorldError("the world observes nothing")

    def _differing(self, position: int, shown: Callable[[Trace], Sequence[Any]]) -> Trace | None:
        """An episode whose bars differ from a position on, and with them what is shown; None if there is none. What is
        missing because an episode ended before is not a difference: what ended it knew of the bars."""
        usual, played = shown(self.usual), self._traces.setdefault(position, [])
        for k, other in enumerate(self.future.others):
            if k == len(played):
                played.append(self.world.play(other(position), self.actions))
            pairs = zip(shown(played[k]), usual, strict=False)
            if not all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
                return played[k]
        return None

    def leaks_and_notes(self, name: str) -> tuple[tuple[Leak, ...], tuple[str, ...]]:
        """The first leak of each kind, by step, and what could not be tested."""
        if self.known[0] < 0 and max(self.known) < 0:
            raise WorldError(f"{name}: no observation depends on the bars: is this the option that takes them?")
        lead = np.array(self.known[: len(self.actions)]) - 2 * np.arange(len(self.actions))
        probed = {*PROBED, *np.argsort(-lead, kind="stable")[:MOST_AHEAD].tolist()}
        judged = [self._orders(step) for step in sorted(probed) if step < len(self.actions)]
        self._outcomes()
        notes = () if any(judged) else ("no action changed a reward within 4 steps: fills could not be tested",)
        return tuple(sorted(self.leaks.values(), key=lambda leak: leak.step)), notes

    @cached_property
    def known(self) -> list[int]:
        """For each step, the last position that the observation depends on, or an earlier one did; -1 if none."""
        return self._known(partial(_part, "observations"), len(self.usual.observations))

    def _known(self, shown: Callable[[int, Trace], Sequence[Any]], count: int) -> list[int]:
        """For each of so many steps, the last position that is known from what was shown until then; -1 if none."""
        known = [-1]
        for step in range(count):
            known.append(self._last_position(partial(shown, step), known[-1]))
        return known[1:]

    def _last_position(self, shown: Callable[[Trace], Sequence[Any]], known: int = -1) -> int:
        """The last position that a part of the episode depends on, or what is `known` before; -1 if none."""
        if known < 0 and self._differing(0, shown) is None:
            return -1
        low, high = max(known, 0), self.future.end  # it differs at `low`, and not at `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._differing(middle, shown) is None else (middle, high)
        # What is shown now and then need not differ at every position before the last one.
        near = range(min(low + NEAR, self.future.end - 1), low, -1)
        return next((position for position in near if self._differing(position, shown) is not None), low)

    def _orders(self, step: int) -> bool:
        """Compare what two actions earn; whether they could be told apart."""
        pair = self._telling_pair(step)
        if pair is None:
            return False
        actions, late = pair
        position = self.known[step] + 1
        usual = self._earned(self.future.changed(self.future.end), step, actions)[late]
        if self._is_paid_by(position, step, actions, usual, late):
            self._observation_leak(step)
            return True
        self._told_by_infos(step, position, lambda after: self._is_paid_by(after, step, actions, usual, late))
        gap = self._earned(self.future.scaled(position, FACTOR), step, actions)
        if late < len(gap) and abs(gap[late]) > MOST_GAIN * abs(usual) and "fill" not in self.leaks:
            self._add("fill", step, position - 1, "the fill", f"the order of step {step} is filled at a price of row "
                      f"{(position - 1) // 2}, which its observation has shown already")  # fmt: skip
        if "fill" not in self.leaks and self._is_filled_at_extremes(position, step, actions, abs(usual), late):
            self._add("fill", step, position, "the fill", f"the order of step {step} is filled at the high or the low "
                      f"of row {position // 2}, as if it were known where the prices of a bar turn")  # fmt: skip
        return True

    def _is_filled_at_extremes(
        self, position: int, step: int, actions: tuple[Any, Any], usual: float, late: int
    ) -> bool:
        """Whether an action earns ever more, the further highs and lows are from opens and closes. What waits at a
        price of its own, such as a limit order, earns the same, however far they are beyond it."""
        courses = [self.future.wider(position, factor) for factor in (1.0, FACTOR, FACTOR**2)]
        for action in actions:
            rewards = [self._after(bars, step, action) for bars in courses]
            if late < min(map(len, rewards)):
                base, first, second = (float(each[late]) for each in rewards)
                if first - base > MOST_GAIN * usual and second - base > FACTOR * (first - base):
                    return True
        return False

    def _told_by_infos(self, step: int, position: int, is_paid_by: Callable[[int], bool]) -> None:
        """Judge the info that knows most before this step, if it knows more than the observation."""
        told = {key: known[step - 1] for key, known in self._informed.items() if step > 0}
        key = max(told, key=lambda each: told[each], default="")
        if told and told[key] >= position and is_paid_by(told[key] + 1):
            self._add("info", step - 1, told[key], f"info[{key!r}]", f"info[{key!r}] of step {step - 1} knew row "
                      f"{told[key] // 2} of the bars, by which the order of step {step} is paid")  # fmt: skip

    def _is_paid_by(self, position: int, step: int, actions: tuple[Any, Any], usual: float, late: int) -> bool:
        """Whether what two actions earn is decided before a position."""
        if position >= self.future.end:
            return True
        other = self._earned(self.future.changed(position), step, actions)
        return late < len(other) and bool(np.isclose(other[late], usual, rtol=1e-9, atol=0))

    @cached_property
    def _informed(self) -> dict[str, list[int]]:
        """What is known from each number of the infos, as in `known`."""
        keys = self.usual.infos[0] if self.usual.infos else ()
        return {key: self._known(partial(_value, key), len(self.usual.infos)) for key in keys}

    def _telling_pair(self, step: int) -> tuple[tuple[Any, Any], int] | None:
        """Two actions that earn something else, and how many steps later this shows."""
        bars = self.future.changed(self.future.end)
        rewards = [self._after(bars, step, action) for action in candidates(self.world.action_space)]
        length = min(map(len, rewards), default=0)
        if length == 0:
            return None
        table = np.array([each[:length] for each in rewards])
        apart = np.abs(table[:, None] - table[None]).max(axis=2)
        one, other = np.unravel_index(int(apart.argmax()), apart.shape)
        effect = np.abs(table[one] - table[other])
        if not effect.max() > 1e-12 * max(1.0, np.abs(table).max()):
            return None
        chosen = candidates(self.world.action_space)
        return (chosen[one], chosen[other]), int((effect >= COUNTS * effect.max()).argmax())

    def _earned(self, bars: dict[str, np.ndarray], step: int, actions: tuple[Any, Any]) -> np.ndarray:
        """The difference between the rewards after two actions."""
        first, second = (self._after(bars, step, action) for action in actions)
        length = min(len(first), len(second))
        return first[:length] - second[:length]

    def _after(self, bars: dict[str, np.ndarray], step: int, action: Any) -> np.ndarray:
        played = [*self.actions[:step], action, *self.actions[step + 1 : step + HORIZON]]
        return np.array(self.world.play(bars, played).rewards[step:])

    def _observation_leak(self, step: int) -> None:
        first = next(k for k, known in enumerate(self.known) if known == self.known[step])
        found = self._differing(self.known[step], partial(_part, "observations", first))
        assert found is not None
        seen, usual = found.observations[first], self.usual.observations[first]
        number = int(np.flatnonzero(~np.isclose(seen, usual, rtol=0, atol=0, equal_nan=True))[0])
        row = self.known[step] // 2
        self._add("observation", first, self.known[step], f"observation[{number}]",
                  f"observation[{number}] of step {first} knew row {row} of the bars, by which the order of step "
                  f"{step} is paid")  # fmt: skip

    def _outcomes(self) -> None:
        """What steps return must not depend on bars far after the next observation. Observations may be late, and by a
        changing number of rows, so what is never less than `LATE` ahead of them knew the future."""
        steps = range(len(self.usual.rewards))
        rewards = [self._last_position(partial(_part, "rewards", k)) for k in steps]
        self._if_always_ahead("reward", "the reward", rewards)
        for key, told in self._informed.items():
            self._if_always_ahead("info", f"info[{key!r}]", told)
        paid = [-1] * len(rewards) if "reward" in self.leaks else rewards
        for k in steps:
            last = self._last_position(partial(_has_ended, k), self.known[k + 1])
            if last >= max(paid[k], self.known[k + 1]) + LATE:
                self._late("end", k, last, "the end of the episode")
                return

    def _if_always_ahead(self, kind: str, what: str, last: list[int]) -> None:
        ahead = {k: position - self.known[k + 1] for k, position in enumerate(last) if position >= 0}
        if ahead and min(ahead.values()) >= LATE:
            first = next(iter(ahead))
            self._late(kind, first, last[first], what)

    def _late(self, kind: str, step: int, position: int, what: str) -> None:
        row, known = position // 2, self.known[step + 1] // 2
        text = f"{what} of step {step} knew row {row} of the bars, while the next observation knows row {known}"
        self._add(kind, step, position, what, text)

    def _add(self, kind: str, step: int, position: int, what: str, text: str) -> None:
        known = self.leaks.get(kind)
        if known is None or step < known.step:
            self.leaks[kind] = Leak(kind, step, position // 2, what, text)


def _part(name: str, step: int, trace: Trace) -> Sequence[Any]:
    return getattr(trace, name)[step : step + 1]


def _has_ended(step: int, trace: Trace) -> Sequence[Any]:
    return [any(trace.ends[: step + 1])]


def _value(key: str, step: int, trace: Trace) -> Sequence[Any]:
    return [info.get(key, np.nan) for info in trace.infos[step : step + 1]]


def candidates(space: Any) -> list[Any]:
    """Actions that differ as much as possible."""
    if hasattr(space, "n"):
        return [int(space.start) + k for k in range(min(int(space.n), 6))]
    if hasattr(space, "nvec"):
        return [np.zeros_like(space.nvec), space.nvec - 1]
    if hasattr(space, "low"):
        low, high = (np.clip(end, -1e3, 1e3).astype(space.dtype) for end in (space.low, space.high))
        return [low, ((low.astype(np.float64) + high) / 2).astype(space.dtype), high]
    space.seed(1)
    return [space.sample() for _ in range(4)]
