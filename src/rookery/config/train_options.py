"""The keywords of `rookery.train` and `rookery.resume`, typed, for editors and type checkers.

They are the keys of a configuration, which `RunConfig` checks, and the names that older trainers gave them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Section = Mapping[str, Any]  # such as ppo={"clip": 0.1}
Backend = Literal["auto", "serial", "thread", "process", "kernel", "cuda", "tensor"]
Code = str | Callable[..., Any]  # "file.py:Name", or the class or function itself
FIRST = ("steps", "seed", "num_envs", "learner", "device", "learning_rate", "world_options")  # what people give


class OlderNames(TypedDict, total=False):
    """What older trainers call some of the keys."""

    n_envs: int | Literal["auto", "adaptive"] | None
    parallel_start_method: Literal["spawn", "forkserver", "fork", "default"]
    total_timesteps: int
    total_steps: int
    num_episodes: int
    gpu: int
    base_output_dir: str | PathLike[str]
    checkpoint_dir: str | PathLike[str]
    checkpoint_path: str | PathLike[str]
    eval_every: int
    eval_freq_steps: int
    eval_episodes: int
    eval_num_games: int
    eval_opponents: str | Sequence[str]
    eval_weak_opponent: bool
    run_name: str
    verbose: bool | int
    on: Literal["local", "ray"]
    twin: bool


class ResumeOptions(OlderNames, total=False):
    """What may change when a run is resumed; other keys may be given with the value that they have."""

    episodes: int | None
    workers: int | None
    on_failure: Literal["restart", "raise"]
    max_restarts: int
    bad_values: Literal["finite", "raise", "restart", "allow"]
    on_out_of_memory: Literal["raise", "lower"]
    devices: int | Sequence[int]
    cluster: Section
    learning_rate: float
    ppo: Section
    sac: Section
    dqn: Section
    td3: Section
    pqn: Section
    xqc: Section
    evaluation: Section
    checkpoints: Section
    monitor: Section
    callbacks: Any  # a `Callback` or "file.py:MyCallback", or a list of these


class TrainOptions(ResumeOptions, total=False):
    """Everything that decides a run. A key that is omitted, or None, has its default."""

    world: Any  # of a configuration that is given as a file or a dict, instead of the one there
    world_options: Section
    steps: int | None
    episode_length: int | None
    seed: int
    num_envs: int | Literal["auto", "adaptive"] | None
    backend: Backend
    start_method: Literal["spawn", "forkserver", "fork"] | None
    compiled: bool
    groups: Literal[1, 2] | None
    step_timeout: float | None
    learner: str
    device: str | int
    init_from: str | PathLike[str] | None
    name: str | None
    runs_dir: str | PathLike[str]
    opponents: str | Sequence[Any]
    phases: Sequence[Section]
    reward_scale: float
    league: Section
    search: Section
    wrappers: Code | Sequence[Code]
    image_size: int | Sequence[int] | Literal["auto", "full"]


def with_keywords(options: Any, defaults: Mapping[str, Any]) -> Callable[[Function], Function]:
    """Show a function's keywords one by one in `help()` and notebooks, instead of `**options`: those that people give
    first. `defaults` holds those of the configuration; a keyword without one is None, and then not given."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        first, *named, rest = signature.parameters.values()
        assert rest.kind is rest.VAR_KEYWORD
        types = {key: getattr(kind, "__forward_arg__", kind) for key, kind in options.__annotations__.items()}
        hidden = {*OlderNames.__annotations__, first.name}
        listed = [_keyword(key, kind, defaults.get(key)) for key, kind in types.items() if key not in hidden]
        keywords = [*listed, *(one for one in named if one.kind is one.KEYWORD_ONLY)]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[
                first.replace(kind=first.POSITIONAL_OR_KEYWORD),
                *(one for one in named if one.kind is one.POSITIONAL_OR_KEYWORD),
                *sorted(keywords, key=lambda one: (*FIRST, one.name).index(one.name)),
            ]
        )
        return function

    return decorate


def _keyword(key: str, kind: str, default: Any) -> inspect.Parameter:
    """A keyword with its type and its default, if that is a plain value."""
    if not isinstance(default, (bool, int, float, str)):
        default = None
        kind = kind if "None" in kind or kind == "Any" else f"{kind} | None"
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
