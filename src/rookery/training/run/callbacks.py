"""Callbacks: code of the user's own that a run calls at fixed points.

They are given as objects, `rookery.train(..., callbacks=[MyCallback()])`, or by name in a configuration,
`callbacks = ["my_file.py:MyCallback"]`. They are called in their order, in the process of the run, between two steps.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import OptionError
from rookery.foreign_names import missing
from rookery.gate import allow_given
from rookery.user_code import find_in_file

if TYPE_CHECKING:
    from rookery.learners.agent import Agent
    from rookery.learners.learner import Learner


class Callback:
    """Base class of callbacks: each method may be overridden, and does nothing by default.

    A callback that has `state_dict()` and `load_state_dict(state)` is saved with every checkpoint and continues from
    there when the run is resumed. A state is a dict of numbers, texts, lists, dicts and NumPy arrays.

    Example:
        >>> class StopWhenGood(Callback):
        ...     def on_evaluation(self, run, metrics):
        ...         if metrics["eval/return"] > 400:
        ...             run.stop("good enough")
    """

    def on_start(self, run: RunControl) -> None:
        """The run starts, or is resumed (`run.step` is greater than 0 then)."""

    def on_rollout(self, run: RunControl) -> None:
        """The envs have made some steps: a whole rollout for an on-policy learner."""

    def on_update(self, run: RunControl, metrics: Mapping[str, float]) -> None:
        """The learner has updated its networks; `metrics` are its losses and the like."""

    def on_episode(self, run: RunControl, episode: Mapping[str, float]) -> None:
        """An episode has ended: its `env` (the index), `return`, `length` and `seconds`."""

    def on_evaluation(self, run: RunControl, metrics: Mapping[str, Any]) -> None:
        """The agent was evaluated; `metrics` are those of evaluations.jsonl, such as `eval/return`."""

    def on_checkpoint(self, run: RunControl, path: Path) -> None:
        """A checkpoint was saved in the folder `path`."""

    def on_end(self, run: RunControl, result: Result) -> None:
        """The run has ended; `result` is what `rookery.train` will return."""


CALLED = [name for name in vars(Callback) if name.startswith("on_")]


class RunControl:
    """What a callback sees of a run, and may do to it."""

    def __init__(self, config: RunConfig, path: Path, learner: Learner, counts: Callable[[], tuple[int, int]]) -> None:
        self.config, self.path, self.learner = config, path, learner
        self._counts = counts
        self.metrics: dict[str, float] = {}  # what was logged since it was last written
        self.stop_reason = ""

    @property
    def step(self) -> int:
        """Steps made by all envs so far."""
        return self._counts()[0]

    @property
    def episodes(self) -> int:
        """Episodes that have ended so far."""
        return self._counts()[1]

    @property
    def agent(self) -> Agent:
        """The agent as it is now; it changes with the next update."""
        return self.learner.agent

    def log(self, **metrics: float) -> None:
        """Add metrics to the run's next line of progress: in metrics.jsonl, TensorBoard and trackers. Names may hold a
        slash: `run.log(**{"mine/speed": 3.0})`."""
        for name, value in metrics.items():
            if isinstance(value, (bool, str)) or np.ndim(value) != 0:
                raise OptionError(f"a callback logs numbers, got {name}={value!r:.60}")
            self.metrics[name] = float(value)

    def stop(self, reason: str = "stopped by a callback") -> None:
        """End the run in good order after the current steps: it is evaluated, saved and can be resumed."""
        self.stop_reason = str(reason) or "stopped by a callback"

    def set_options(self, **options: Any) -> None:
        """Change options of the learner from now on, such as `learning_rate=1e-4`.

        Raises:
            OptionError: An option is unknown, a value is not valid, or the option is fixed when the run starts.
        """
        self.learner.adjust(options)


class Callbacks:
    """The callbacks of one run, called one after another."""

    def __init__(self, callbacks: Sequence[Callback], run: RunControl) -> None:
        self._all, self.run = list(callbacks), run
        self._updates = run.learner.updates
        for name in dict.fromkeys(name for callback in self._all for name in _never_called(type(callback))):
            near = difflib.get_close_matches(name.rpartition(".")[2], CALLED, 1, 0.75)
            say(f"{name} is never called; {f'did you mean {near[0]}?' if near else 'called are ' + ', '.join(CALLED)}")

    @property
    def want_episodes(self) -> bool:
        """Whether any of them is called for episodes."""
        return any(type(callback).on_episode is not Callback.on_episode for callback in self._all)

    def call(self, method: str, *args: Any) -> None:
        """Call a method of each callback, such as `on_update`."""
        for callback in self._all:
            getattr(callback, method)(self.run, *args)

    def on_progress(self, updates: int, metrics: Mapping[str, float], finished: np.ndarray) -> None:
        """Call `on_update` if there was one since the last call, and `on_episode` for each record of an engine's
        `finished_episodes()`."""
        if updates > self._updates:
            self.call("on_update", metrics)
        self._updates = updates
        if self.want_episodes:
            for record in finished:
                self.call("on_episode", {name: record[name].item() for name in finished.dtype.names or ()})

    def take_metrics(self) -> dict[str, float]:
        """What was logged since the last call."""
        metrics, self.run.metrics = self.run.metrics, {}
        return metrics

    def tree(self) -> dict[str, Any]:
        """The part of a checkpoint with the states of those that have one, by their place in the list."""
        states = {str(k): getattr(callback, "state_dict", None) for k, callback in enumerate(self._all)}
        saved = {k: method() for k, method in states.items() if method is not None}
        return {"callbacks": saved} if saved else {}

    def load(self, states: Mapping[str, Any]) -> None:
        self._updates = self.run.learner.updates
        for k, callback in enumerate(self._all):
            method = getattr(callback, "load_state_dict", None)
            if method is not None and str(k) in states:
                method(states[str(k)])


def callback_name(callback: Callback) -> str | None:
    """The name by which a configuration can hold a callback, "file.py:MyCallback"; None if its class is not at the top
    of a file."""
    kind = type(callback)
    try:
        file = inspect.getsourcefile(kind)
    except (OSError, TypeError):
        return None
    at_top = kind.__qualname__.isidentifier() and file is not None and Path(file).is_file()
    return f"{Path(str(file)).resolve()}:{kind.__qualname__}" if at_top else None


def make_callback(name: str) -> Callback:
    """The callback that "file.py:MyCallback" names, made without arguments."""
    found = find_in_file(name, "callbacks")
    if not (isinstance(found, type) and issubclass(found, Callback)):
        raise OptionError(f"callbacks: {name!r} should be a class that is derived from rookery.Callback")
    try:
        return found()
    except TypeError as error:
        raise OptionError(
            f"callbacks: {found.__name__} cannot be made without arguments ({error}); give the object instead: "
            "rookery.train(..., callbacks=[...]) or rookery.resume(..., callbacks=[...])"
        ) from error


def _never_called(kind: type[Callback]) -> list[str]:
    """Methods that look like a callback's: misspelt, or with a name of another library."""
    names = [name for name in vars(kind) if name.startswith(("on_", "_on_")) and name not in CALLED]
    return [f"{kind.__name__}.{name}" for name in names]


def take_callbacks(options: dict[str, Any]) -> list[Callback] | None:
    """Take objects out of the option `callbacks`, leaving the names by which the run records them. None if the option
    was not given: those of the configuration are made then."""
    if options.get("callbacks") is None:
        return None
    given = options["callbacks"]
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    allow_given(given)
    callbacks = [make_callback(item) if isinstance(item, str) else _checked(item) for item in given]
    names = [item if isinstance(item, str) else callback_name(item) for item in given]
    for callback, name in zip(callbacks, names, strict=True):
        if name is None:
            say(f"{type(callback).__name__} is not at the top of a file: give it again to resume the run with it")
    options["callbacks"] = [name for name in names if name is not None]
    return callbacks


def _checked(callback: Any) -> Callback:
    if isinstance(callback, Callback):
        return callback
    hint = "; make an object of it" if isinstance(callback, type) else ""
    raise OptionError(f"a callback should be derived from rookery.Callback, got {callback!r:.80}{hint}")


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Any]):
    """Returned by `rookery.train`; `result["mean_reward"]` works as well as `result.mean_reward`."""

    run_name: str
    path: Path
    agent: Agent
    total_steps: int
    episodes: int
    mean_reward: float  # of the last 100 episodes; NaN if none was finished
    evaluation: float | None  # mean return of the last evaluation
    best_evaluation: float | None
    seconds: float
    steps_per_second: float  # of training: without evaluations, and without the first round, which may compile
    num_envs: int
    reason: str  # "finished", "goal reached", "interrupted"
    exit_code: int = 0

    if not TYPE_CHECKING:  # which knows all names that there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing("a Result", name, [*dir(type(self)), *self.__dataclass_fields__]))

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def as_json(self) -> dict[str, Any]:
        """All but the agent, as plain values."""
        values = {name: value for name, value in self.items() if name != "agent"}
        values["mean_reward"] = None if self.mean_reward != self.mean_reward else self.mean_reward
        return values | {"path": str(self.path)}
