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

PROBED = (0, 1, 2, 5, 8, 11, 14, 19)  # steps at which orders are compared
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
        self._traces: dict[int, Trace] = {}
        first = world.play(self.future.changed(self.future.end), [])
        world.action_space.seed(seed)
        self.actions = [world.action_space.sample() for _ in range(steps)]
        self.usual = self._trace(self.future.end)
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

    def _trace(self, position: int) -> Trace:
        if position not in self._traces:
            self._traces[position] = self.world.play(self.future.changed(position), self.actions)
        return self._traces[position]

    def leaks_and_notes(self, name: str) -> tuple[tuple[Leak, ...], tuple[str, ...]]:
        """The first leak of each kind, by step, and what could not be tested."""
        if self.known[0] < 0 and max(self.known) < 0:
            raise WorldError(f"{name}: no observation depends on the bars: is this the option that takes them?")
        judged = [self._orders(step) for step in PROBED if step < len(self.actions)]
        self._outcomes()
        notes = () if any(judged) else ("no action changed a reward within 4 steps: fills could not be tested",)
        return tuple(sorted(self.leaks.values(), key=lambda leak: leak.step)), notes

    @cached_property
    def known(self) -> list[int]:
        """For each step, the last position that the observation depends on, or an earlier one did; -1 if none."""
        steps = range(len(self.usual.observations))
        last = [self._last_position(partial(_part, "observations", step)) for step in steps]
        return np.maximum.accumulate(last).tolist()

    def _last_position(self, shown: Callable[[Trace], Sequence[Any]]) -> int:
        """The last position that a part of the episode depends on; -1 if it depends on none. An episode that ended
        before has no such part, which is a difference too."""
        usual = shown(self.usual)

        def differs(position: int) -> bool:
            found = shown(self._trace(position))
            pairs = zip(found, usual, strict=False)
            return len(found) != len(usual) or not all(np.array_equal(*pair, equal_nan=True) for pair in pairs)

        if not differs(0):
            return -1
        low, high = 0, self.future.end  # it differs at `low`, and not at `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if differs(middle) else (low, middle)
        return low

    def _orders(self, step: int) -> bool:
        """Compare what two actions earn; whether they could be told apart."""
        pair = self._telling_pair(step)
        if pair is None:
            return False
        actions, late = pair
        position = self.known[step] + 1
        usual = self._earned(self.future.changed(self.future.end), step, actions)[late]
        if "observation" not in self.leaks:
            other = self._earned(self.future.changed(position), step, actions)
            if position >= self.future.end or _same(other, usual, late):
                self._observation_leak(step)
                return True
        gap = self._earned(self.future.scaled(position, FACTOR), step, actions)
        if late < len(gap) and abs(gap[late]) > MOST_GAIN * abs(usual) and "fill" not in self.leaks:
            self._add("fill", step, position - 1, "the fill", f"the order of step {step} is filled at a price of row "
                      f"{(position - 1) // 2}, which its observation has shown already")  # fmt: skip
        return True

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
        found = self._trace(self.known[step]).observations
        if first >= len(found):  # it knew that the episode had not ended
            return
        number = int(np.flatnonzero(~np.isclose(found[first], self.usual.observations[first], rtol=0, atol=0))[0])
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
        for key in self.usual.infos[0] if self.usual.infos else ():
            shown = [self._last_position(partial(_value, k, key)) for k in steps]
            self._if_always_ahead("info", f"info[{key!r}]", shown)
        paid = [-1] * len(rewards) if "reward" in self.leaks else rewards
        for k in steps:
            last = self._last_position(partial(_part, "ends", k))
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


def _value(step: int, key: str, trace: Trace) -> Sequence[Any]:
    return [info.get(key, np.nan) for info in trace.infos[step : step + 1]]


def _same(other: np.ndarray, usual: float, late: int) -> bool:
    return late < len(other) and bool(np.isclose(other[late], usual, rtol=1e-9, atol=0))


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
