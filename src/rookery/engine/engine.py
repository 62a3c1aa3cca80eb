"""The engine: many envs as one `gymnasium.vector.VectorEnv`. Backends fill in how work reaches the envs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.engine import seeding
from rookery.engine.batch import ALL, STEPS, WORKER_WORDS, check_memory
from rookery.engine.env_state.save_load import load_columns, load_options, save_columns, save_options
from rookery.engine.exchange import Exchange
from rookery.engine.settings import plain_int, positive_int, redivide
from rookery.errors import OptionError, StateError, UsageError

EPISODE = np.dtype([("env", "i8"), ("return", "f8"), ("length", "i8"), ("seconds", "f8")])


class Engine(Exchange):
    """What users call, the same on all backends: Gymnasium's interface and what goes beyond it.

    With `copy=False` the arrays returned by `reset`, `step` and `recv` are views that the next `step` or `send` of
    the same envs overwrites; rewards and flags are always copies.
    """

    backend = ""

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`. Env i gets the i-th child of `SeedSequence(seed)`;
        a list gives each env its own seed verbatim."""
        self._require_idle("reset")
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        rows = list(range(self.num_envs)) if mask is None else self._masked_rows(mask)
        seeds = seeding.env_seeds(seed, self.num_envs)
        if isinstance(seed, (int, np.integer)):
            self._root_seed = int(seed)
        infos: dict[str, Any] = {}
        asks = self._split_rows(rows, lambda mine: ("reset", (mine, [seeds[r] for r in mine], options or None)))
        for reports in self._ask(asks).values():
            for report in reports:
                self._absorb(report, infos, None)
        self._last_ids = None
        return self.batch.observations.take(ALL, self.settings.copy), infos

    def reset_with(self, options: Mapping[int, dict[str, Any]]) -> None:
        """Begin the next episodes of some envs, by their numbers, with these options: as if `reset` had them, also when
        envs reset themselves. They hold for all later episodes, until others are given. An episode that is under way
        goes on as it is."""
        self._require_idle("reset_with")
        count = getattr(self, "num_worlds", self.num_envs)
        unknown = [env for env in options if not 0 <= env < count]
        if unknown:
            raise OptionError(f"there is no env {unknown[0]}: there are {count}")
        self._reset_options.update(options)
        self._tell("reset_with", (dict(options),))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs once."""
        if self.closed or self._in_flight or self._broken:
            self._require_idle("step")
        self._send(self.segments, actions, ALL, self.num_envs)
        return self._receive(self.segments, ALL, self.num_envs)

    def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Start stepping some envs: `env_ids`, or those of the last `recv` (all of them after a reset)."""
        env_ids = self._last_ids if env_ids is None else env_ids
        if env_ids is None and not self._in_flight:
            self._require_usable("send")
            return self._send(self.segments, actions, ALL, self.num_envs)
        ids = np.asarray(range(self.num_envs) if env_ids is None else env_ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":  # nor a mask, which would pass for envs 0 and 1
            raise OptionError(f"env_ids should be a list of env numbers, got {env_ids!r}")
        return self._send(self._whole_segments(ids), actions, ids, len(ids))

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Results of the first `batch_size` envs to finish, in ascending order; `infos["env_id"]` names them."""
        self._require_usable("recv")
        flying = list(self._in_flight.values())
        if not flying:
            raise UsageError("recv() was called, but no env is being stepped; call send(actions) first")
        size = sum(s.high - s.low for s in flying)
        need = min(self.settings.batch_size or size, size)
        if need == self.num_envs:
            self._last_ids = None
            result = self._receive(self.segments, ALL, need)
            result[4]["env_id"] = np.arange(need)
            return result
        self._wait(flying, need)
        go, done, chosen, count = self.batch.go, self.batch.done, [], 0
        for segment in flying:  # in the order they were sent, so that none waits for ever
            if done[segment.index] == go[segment.index] and count < need:
                chosen.append(segment)
                count += segment.high - segment.low
        ids = np.sort(np.concatenate([np.arange(s.low, s.high) for s in chosen]))
        self._last_ids = ids
        result = self._receive(chosen, ids, len(ids))
        result[4]["env_id"] = ids
        return result

    def render(self) -> tuple[Any, ...]:
        """Each env's rendering."""
        return self.call("render")

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each env's attribute `name` or, if it is callable, what it returns."""
        return self.call_some(range(self.num_envs), name, *args, **kwargs)

    def call_some(self, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`call` for some envs only."""
        return self._ask_rows(rows, lambda mine: ("call", (mine, name, args, kwargs)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each env's attribute `name`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each env: a list or tuple gives one value per env, anything else goes to all."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise OptionError(f"set_attr({name!r}) needs one value for each of {self.num_envs} envs, got {len(values)}")
        self.set_some(range(self.num_envs), name, values)

    def set_some(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """`set_attr` for some envs only."""
        value_of = dict(zip(rows, values, strict=True))
        self._ask_rows(rows, lambda mine: ("set_attr", (mine, name, [value_of[r] for r in mine])))

    def is_wrapped(self, wrapper: type, rows: Sequence[int] | None = None) -> tuple[bool, ...]:
        """Whether each env has a wrapper of this class around it."""
        rows = range(self.num_envs) if rows is None else rows
        return self._ask_rows(rows, lambda mine: ("is_wrapped", (mine, wrapper)))

    # --- beyond Gymnasium ---------------------------------------------------------------------------------------

    def finished_episodes(self) -> np.ndarray:
        """Episodes that ended since the last call, as records of env, return, length and seconds, oldest first."""
        episodes = np.zeros(sum(len(ids) for ids, *_ in self._episodes), EPISODE)
        for name, parts in zip(EPISODE.names or (), zip(*self._episodes, strict=True), strict=False):
            episodes[name] = np.concatenate(parts)
        episodes = episodes[episodes["length"] > 0]  # of an episode lost with its worker, nothing is known
        self._episodes.clear()
        return episodes

    @property
    def restarts(self) -> int:
        """How many times an env or a worker was restarted so far."""
        return self._guard.total

    def resize(self, num_envs: int) -> None:
        """Change the number of envs. Those that stay keep their worker, state and seed; new ones must be reset
        (`reset(options={"reset_mask": ...})`) before they are stepped."""
        self._require_idle("resize")
        num_envs = plain_int(num_envs)
        positive_int("num_envs", num_envs)
        if not self.source.endless and num_envs > len(self.source.makers):
            raise OptionError(f"cannot grow to {num_envs} envs: the list holds {len(self.source.makers)} worlds")
        if self.settings.groups > 1:
            raise UsageError("an engine with groups cannot be resized; make a new one")
        if num_envs != self.num_envs:
            check_memory(self.single_observation_space, self.single_action_space, num_envs)
            self._muster()
            staff = max(self.workers, min(self.settings.workers, num_envs))
            self.segments = redivide(self.segments, num_envs, staff, self.settings.per_env)
            self.num_envs = num_envs
            self._segment_of_row = {row: s for s in self.segments for row in range(s.low, s.high)}
            self._batch_spaces()
            self._last_ids = None
            old = self.batch.worker_words
            try:
                self._grow(self._batch_spec())
            except BaseException as error:
                self._fail(error)  # some envs have moved and others have not
                raise
            for k in range(STEPS, min(len(old), len(self.batch.worker_words)), WORKER_WORDS):
                self.batch.worker_words[k] = old[k]

    def state_dict(self, portable: bool = False) -> dict[str, Any]:
        """Everything needed to continue exactly from here; see `load_state_dict`. It may hold pickles of envs, for this
        run's live memory only. If `portable`, it is nested dicts of arrays and plain values, fit for a file; a
        StateError then names what an env has that cannot be written so."""
        self._require_idle("state_dict")
        rows = range(self.num_envs)
        envs = self._ask_rows(rows, lambda mine: ("save", (mine, portable)))
        return {
            **self._header(portable),
            "reset_options": save_options(self._reset_options, portable),
            "observations": save_columns(self.batch.observations) if portable else self.batch.observations.take(ALL),
            "envs": {str(row): saved for row, saved in zip(rows, envs, strict=True)},
        }

    def _header(self, portable: bool) -> dict[str, Any]:
        return {
            "format": 1,
            "portable": portable,
            "num_envs": self.num_envs,
            "autoreset_mode": self.settings.autoreset_mode.name,
            "root_seed": self._root_seed,
            "restarts": {str(row): count for row, count in self._restarts.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Continue from a `state_dict()`, of any backend and number of workers; returns the observations held then."""
        self._require_idle("load_state_dict")
        self._check_saved(state, "envs")
        saved = state["envs"]
        self._ask_rows(range(self.num_envs), lambda mine: ("load", (mine, [saved[str(r)] for r in mine])))
        self._load_header(state)
        options = load_options(state.get("reset_options"), state["portable"])
        self.reset_with({row: options.get(row, {}) for row in {*self._reset_options, *options}})
        if state["portable"]:
            load_columns(self.batch.observations, state["observations"])
        else:
            self.batch.observations.put(ALL, state["observations"], self.num_envs)
        return self.batch.observations.take(ALL, self.settings.copy)

    def _load_header(self, state: dict[str, Any]) -> None:
        self._root_seed = state["root_seed"]
        self._restarts = {int(row): count for row, count in state["restarts"].items()}

    def _check_saved(self, state: dict[str, Any], contents: str) -> None:
        for name, mine in (("num_envs", self.num_envs), ("autoreset_mode", self.settings.autoreset_mode.name)):
            if state.get(name) != mine:
                raise StateError(f"the state was saved with {name}={state.get(name)!r}, this engine has {mine!r}")
        if contents not in state:
            raise StateError(
                f"the state was saved by another kind of backend than {self.backend!r}: it has no {contents!r}"
            )

    def stats(self) -> list[dict[str, Any]]:
        """Per worker: `pid`, `envs`, `steps` so far, `cpu_seconds`, `memory` in bytes. Differences between two calls
        give rates; cheap enough to call every second, also while envs are being stepped."""
        if self.closed:
            raise UsageError("stats() was called on a closed engine")
        words = self.batch.worker_words
        return [
            {**usage, "worker": k, "envs": len(self._rows_of(k)), "steps": words[k * WORKER_WORDS + STEPS]}
            for k, usage in enumerate(self._usage())
        ]
