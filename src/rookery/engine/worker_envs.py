"""The envs of one worker, and all that an engine can call on them, in any process or thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.spaces.utils import is_space_dtype_shape_equiv

from rookery.engine import seeding, snapshot
from rookery.engine.batch import Batch, leaves
from rookery.engine.env_factory import EnvFactory
from rookery.engine.seeding import GlobalRandom, uses_global_random
from rookery.engine.segments import Segment
from rookery.engine.snapshot import wrapper_chain
from rookery.engine.step_report import Failed, Failure, Slot, StepReport
from rookery.engine.stepper import Stepper
from rookery.engine.wrapping import ResizeImages, space_of_stacks
from rookery.errors import UnequalSpaces, UsageError, WorldError


@dataclass(frozen=True)
class EnvDescription:
    """What the parent needs to know about the envs, taken from a worker's first env."""

    observation_space: gym.Space
    action_space: gym.Space
    metadata: dict[str, Any]
    render_mode: str | None
    spec: Any
    global_random: tuple[bool, bool]
    full_size: gym.Space | None = None  # the observation space before images were shrunk, if they are


class WorkerEnvs:
    """Builds envs, keeps them, and steps them segment by segment."""

    interruptible = False  # in the caller's own thread a KeyboardInterrupt comes from the user, not from the env

    def __init__(
        self, source: EnvFactory, strict: bool | str = True, isolate: bool | None = None, observation_mode: Any = "same"
    ) -> None:
        """`observation_mode`: "same", or anything else where the observation spaces of envs may differ in bounds."""
        self._source, self._strict, self._isolate = source, strict, isolate
        self._same_spaces = isinstance(observation_mode, str) and observation_mode == "same"
        self.envs: dict[int, gym.Env] = {}
        self.steppers: dict[int, Stepper] = {}
        self._batch: Batch | None = None
        self._own_random: dict[int, GlobalRandom] | None = None
        self._description: EnvDescription | None = None
        self._slots: list[Slot] = []
        self._reset_options: dict[int, dict[str, Any]] = {}

    # --- building -----------------------------------------------------------------------------------------------

    def build(
        self,
        rows: Sequence[int],
        expected: tuple[gym.Space, gym.Space] | None = None,
        own_space: gym.Space | None = None,
    ) -> EnvDescription:
        """Build these envs; all must have the same spaces, and the `expected` ones if given. `own_space` is the
        observation space that the first env should be described with, instead of its own."""
        known = {id(_innermost(env)) for env in self.envs.values()}
        for row in rows:
            with self.attribute_to(row, "__init__"):
                env = self._source.make(row)
                _check_is_new(env, known)
                if expected is None:
                    for space in (env.observation_space, env.action_space):
                        leaves(space)  # raises a clear error now if it is not supported
                    expected = env.observation_space if own_space is None else own_space, env.action_space
                self._check_spaces(env, *expected)
            self.envs[row] = env
            if self._description is None:
                self._description = self._describe(env, expected[0])
            if self._own_random is not None:
                python, numpy = self._description.global_random
                self._own_random[row] = GlobalRandom(seeding.fresh_entropy(), python, numpy)
        assert self._description is not None
        return self._description

    def _describe(self, env: gym.Env, observation_space: gym.Space) -> EnvDescription:
        used = uses_global_random(env) if self._isolate is None else (self._isolate, self._isolate)
        if any(used):
            self._own_random = {}
        mode = getattr(env, "render_mode", None)
        full = env.env.observation_space if isinstance(env, ResizeImages) else None
        observation_space = space_of_stacks(env, observation_space)
        return EnvDescription(observation_space, env.action_space, dict(env.metadata), mode, env.spec, used, full)

    def attach(self, batch: Batch, row_word: int, segments: Sequence[Segment]) -> None:
        """Work on these arrays and segments from now on; envs outside them are closed."""
        stats = {s.low + i: s.episode_stats(i) for s in self.steppers.values() for i in range(len(s.envs))}
        wanted = {row for s in segments for row in range(s.low, s.high)}
        self.close([row for row in self.envs if row not in wanted])
        self.steppers, self._batch, self._row_word = {}, batch, row_word
        for segment in segments:
            rows = range(segment.low, segment.high)
            own_random = None if self._own_random is None else [self._own_random[row] for row in rows]
            stepper = Stepper([self.envs[row] for row in rows], segment.low, self._strict, own_random)
            if not self._same_spaces:  # else its default: an object with more than 30 attributes is slower to read
                stepper.same_spaces = False
            stepper.attach(batch, batch.worker_words, row_word, segment.index)
            stepper.add_slots(self._slots)
            stepper.reset_options = self._reset_options
            stepper.reset_interruptible = self.interruptible
            for i, row in enumerate(rows):
                if row in stats:
                    stepper.load_episode_stats(i, stats[row])
            self.steppers[segment.index] = stepper

    def take_actions(self, items: Sequence[tuple[int, int, Any]]) -> None:
        """Actions that have no fixed size, as (leaf, env, value)."""
        assert self._batch is not None
        for leaf, row, value in items:
            self._batch.actions.columns[leaf][row] = value

    def set_slots(self, slots: Sequence[Slot]) -> None:
        """Write these info keys to shared memory from the next step on."""
        self._slots = list(slots)
        for stepper in self.steppers.values():
            stepper.add_slots(slots)

    def reset_with(self, options: Mapping[int, dict[str, Any]]) -> None:
        """Options for these envs' next resets, by row; rows of other workers are ignored."""
        self._reset_options.update(options)

    @property
    def isolates_random(self) -> bool:
        return self._own_random is not None

    # --- calls --------------------------------------------------------------------------------------------------

    def reset(self, rows: Sequence[int], seeds: Sequence[int | None], options: dict | None) -> list[StepReport]:
        seed_of, reports = dict(zip(rows, seeds, strict=True)), []
        for stepper in self.steppers.values():
            positions = [row - stepper.low for row in self._rows(stepper) if row in seed_of]
            if positions:
                reports.append(stepper.reset(positions, [seed_of[stepper.low + i] for i in positions], options))
        return reports

    def restart(self, row: int, seed: int, announce: bool) -> list[StepReport]:
        """Replace a broken env by a new one; `announce` reports it in the step that failed, else in the next."""
        stepper, i = self._find(row)
        if row in self.envs:
            self.close([row])  # it is broken already: a failure of its close() does not matter
        known = self._description
        self.build([row], None if known is None else (known.observation_space, known.action_space))
        if stepper.isolation is not None and self._own_random is not None:
            stepper.isolation[i] = self._own_random[row]
        stepper.replace(i, self.envs[row])
        reports = [stepper.restart(i, seed)]
        if announce and not reports[0].failures:
            reports.append(stepper.announce_restart(i))
        return reports

    def restart_all(self, rows: Sequence[int], seeds: Sequence[int]) -> list[StepReport]:
        """Start envs that replace those of a dead worker; their next step reports it."""
        seed_of = dict(zip(rows, seeds, strict=True))
        return [s.restart(row - s.low, seed_of[row]) for s in self.steppers.values() for row in self._rows(s)]

    def call(self, rows: Sequence[int], name: str, args: tuple, kwargs: dict) -> dict[int, Any]:
        """An attribute of each env or, if it is callable, its result."""

        def call_env(row: int) -> Any:
            found = self._env(row).get_wrapper_attr(name)
            return found(*args, **kwargs) if callable(found) else found

        return self._each(rows, name, call_env)

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> dict[int, Any]:
        value_of = dict(zip(rows, values, strict=True))
        return self._each(rows, f"set_attr:{name}", lambda row: self._env(row).set_wrapper_attr(name, value_of[row]))

    def is_wrapped(self, rows: Sequence[int], wrapper: type) -> dict[int, bool]:
        return {row: any(isinstance(layer, wrapper) for layer in wrapper_chain(self.envs[row])) for row in rows}

    def save(self, rows: Sequence[int], portable: bool = False) -> dict[int, dict[str, Any]]:
        def save_env(row: int) -> dict[str, Any]:
            stepper, i = self._find(row)
            own_random = None if self._own_random is None else self._own_random[row].state()
            return {
                "env": snapshot.save(self._env(row), portable),
                "books": stepper.episode_stats(i),
                "global_random": own_random,
            }

        return self._each(rows, "get_state", save_env)

    def load(self, rows: Sequence[int], states: Sequence[dict[str, Any]]) -> dict[int, Any]:
        state_of = dict(zip(rows, states, strict=True))

        def load_env(row: int) -> None:
            stepper, i = self._find(row)
            saved = state_of[row]
            self.envs[row] = snapshot.load(self.envs[row], saved["env"])
            stepper.replace(i, self.envs[row])
            stepper.load_episode_stats(i, saved["books"])

        answers = self._each(rows, "set_state", load_env)
        # Only now: each call above ends by storing the random state it started with.
        for row, saved in state_of.items():
            if self._own_random is not None and saved["global_random"] is not None:
                self._own_random[row].load(saved["global_random"])
        return answers

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function in the worker, for measurements."""
        return function(self, *args)

    def close(self, rows: Sequence[int] | None = None) -> list[Failure]:
        """Close envs, all of them by default, also after one has failed to close."""
        failures = []
        for row in list(self.envs) if rows is None else rows:
            try:
                self.envs.pop(row).close()
            except BaseException as error:  # noqa: BLE001
                failures.append(Failure(row, "close", error))
        return failures

    # --- helpers ------------------------------------------------------------------------------------------------

    def _rows(self, stepper: Stepper) -> range:
        return range(stepper.low, stepper.low + len(stepper.envs))

    def _env(self, row: int) -> gym.Env:
        if row not in self.envs:
            raise UsageError(f"env {row} failed and could not be built again")
        return self.envs[row]

    def _find(self, row: int) -> tuple[Stepper, int]:
        for stepper in self.steppers.values():
            if row in self._rows(stepper):
                return stepper, row - stepper.low
        raise KeyError(row)

    def _each(self, rows: Sequence[int], phase: str, call_env: Callable[[int], Any]) -> dict[int, Any]:
        results = {}
        for row in rows:
            if self._batch is not None:  # the time limit of a call is per env
                self._batch.worker_words[self._row_word] = row
            with self.attribute_to(row, phase):
                if self._own_random is None:
                    results[row] = call_env(row)
                    continue
                self._own_random[row].enter()
                try:
                    results[row] = call_env(row)
                finally:
                    self._own_random[row].leave()
        return results

    def _check_spaces(self, env: gym.Env, observation_space: gym.Space, action_space: gym.Space) -> None:
        mine = env.observation_space
        if self._same_spaces and mine != observation_space:
            raise UnequalSpaces(
                f"all envs of a batch need the same observation space: the first has {observation_space}, this one "
                f"{mine}; if only their bounds differ, use observation_mode='different'"
            )
        if not self._same_spaces and not is_space_dtype_shape_equiv(mine, observation_space):
            raise UnequalSpaces(
                f"all envs of a batch need observations of one shape and dtype: expected those of {observation_space}, "
                f"this env has {mine}"
            )
        if env.action_space != action_space:
            raise UnequalSpaces(
                f"all envs of a batch need the same action space: the first has {action_space}, this one "
                f"{env.action_space}"
            )

    @contextmanager
    def attribute_to(self, row: int, phase: str) -> Iterator[None]:
        """Turn an exception raised here into a Failure of one env."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and self.interruptible:
                raise
            raise Failed(Failure(row, phase, error)) from error


def _check_is_new(env: gym.Env, known: set[int]) -> None:
    """Refuse an env that another row has already: two rows would step the same episode."""
    inner = _innermost(env)
    if id(inner) in known:
        raise WorldError(
            f"the function that builds envs returned the same {type(inner).__name__} twice: it should build a new one "
            "at every call, as in `lambda: MyEnv()`"
        )
    known.add(id(inner))


def _innermost(env: gym.Env) -> Any:
    """The env without its wrappers; one that is not derived from Gymnasium's class may not have that attribute."""
    return getattr(env, "unwrapped", env)
