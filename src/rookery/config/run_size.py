"""One estimate of the memory and the processes that a run needs, made before anything of it is.

It is made twice. Before the spaces are known every step counts with the least that it can take, without torch and
without an env, so that a configuration that cannot work is rejected at once. Once they are known, before buffers are
allocated, it counts what they really take. Both compare with what this machine has free, never with a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from rookery.config.layers import LARGEST_AGENT
from rookery.config.schema import RunConfig
from rookery.console import size_text
from rookery.errors import ConfigError, MemoryShortage
from rookery.learners.learner_spec import ReplayOptions
from rookery.learners.registry import PPOOptions, option_classes

WEIGHT = 4  # bytes
COPIES = 4  # of each weight: itself, its gradient, and two averages of the optimizer
PPO_STEP = 23  # reward, three flags, and what an update computes: value, log-probability, advantage, return
REPLAY_STEP = 8  # reward and discount
ENV = 64  # state and results of the smallest compiled env
EVALUATED_EPISODE = 300  # a result with its number, as Python objects
GAME = 8  # its outcome
WORKER_PROCESS = 8 << 20  # what a forked worker does not share with the others
LEARNING_PROCESS = 200 << 20  # with torch
SMALL = 64 << 20  # fits everywhere: free memory is not even looked up
SAFE_SHARE = 0.8  # of the free memory, for values that would fit
LOWERED = ("num_envs", "rollout_length", "buffer_size", "batch_size")  # what `on_out_of_memory` = "lower" may change


@dataclass(frozen=True)
class StepSize:
    """Bytes that do not depend on the configuration's numbers. The defaults are the least that any space takes."""

    observation: int = 1
    action: int = 4
    outputs: int = 8  # of the policy's net, and the noise to sample with
    nets: int | None = None  # of all weights; None: estimated by the widths of the hidden layers
    replayed: int | None = None  # of a transition's two observations in a replay buffer, if not twice `observation`


@dataclass(frozen=True)
class Setting:
    """A key that parts of the memory grow with."""

    key: str
    value: Any  # a number, or the widths of layers

    @property
    def number(self) -> int:
        return max(self.value, default=1) if isinstance(self.value, list) else self.value

    def less(self, fraction: float) -> int:
        """The value with which its parts take this fraction; 0 if there is none. Weights grow with the square of a
        layer's width."""
        is_width = self.key.endswith((".hidden", ".recurrent"))
        return int(self.number * (math.sqrt(fraction) if is_width else fraction)) if fraction > 0 else 0

    def text(self, fraction: float) -> str:
        """The present value, and the one that would fit, if there is one."""
        now = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value!r:.60}"
        kind = "widths up to " if isinstance(self.value, list) else ""
        less = self.less(fraction)
        return f"`{self.key}` ({now} now" + (f", {kind}{less:,} would fit)" if less else ")")


@dataclass(frozen=True)
class Part:
    """Memory of one kind."""

    what: str
    size: int  # bytes
    settings: tuple[Setting, ...]
    on_device: bool = False  # beside the learner, which may be on a GPU


def check_run_size(
    config: RunConfig, sizes: StepSize | None = None, num_rows: int | None = None, device_free: int | None = None
) -> None:
    """Refuse a run that needs more memory or more processes than there are.

    Args:
        sizes: Of the spaces, if they are known.
        num_rows: Rows of the learner's batch, if known: every agent of every env.
        device_free: Free bytes of the learner's GPU, if it has one and they are known.

    Raises:
        MemoryShortage: It names the part that takes most, and the settings to lower, with values that would fit.
        ConfigError: There would be too many processes.
    """
    check_processes(config)
    parts = _parts(config, sizes or StepSize(), num_rows)
    if sum(part.size for part in parts) <= SMALL:
        return
    on_gpu = _is_on_gpu(config)
    _compare([part for part in parts if not (part.on_device and on_gpu)], _free_memory(), "this machine", config)
    if device_free is not None:
        _compare([part for part in parts if part.on_device], device_free, "the GPU", config)
    if sizes is None:
        _check_agent(config)


def check_search_size(config: RunConfig) -> None:
    """Refuse a search whose trials, those that train side by side as one program included, do not fit."""
    search = config.search
    _check_counts({"search.jobs": search.jobs})
    check_run_size(config)
    parts = [_times(part, "search.population.size", search.population.size) for part in _parts(config, StepSize())]
    jobs = min(search.jobs or 1, search.n_trials)
    parts.append(Part("worker processes", jobs * LEARNING_PROCESS, (Setting("search.jobs", jobs),)))
    on_gpu = _is_on_gpu(config)
    _compare([part for part in parts if not (part.on_device and on_gpu)], _free_memory(), "this machine", config)


def check_processes(config: RunConfig) -> None:
    """Refuse more processes and threads than this machine can run."""
    here = config.cluster.kind == "ray" and config.cluster.address is None
    _check_counts(
        {
            "workers": config.workers if config.backend != "serial" else None,
            "devices": len(config.devices) if isinstance(config.devices, list) else config.devices,
            "cluster.nodes": config.cluster.nodes if here else None,
            "cluster.learners": config.cluster.learners if here else None,
            **{f"{name}.threads": getattr(config, name).threads for name in _learners(config)},
        }
    )


def _check_counts(counts: dict[str, int | None]) -> None:
    largest = max((count or 1 for count in counts.values()), default=1)
    if largest <= 64:  # without a look at the machine
        return
    from rookery.engine.machine import most_processes, usable_cores  # they import psutil

    most = most_processes()
    for key, count in counts.items():
        if count is not None and count > most:
            raise ConfigError(
                f"`{key}` = {count:,} would start more processes or threads than this machine can run, about "
                f"{most:,}: lower `{key}` (one for each core would be {usable_cores()}), or omit it"
            )


# --- the parts --------------------------------------------------------------------------------------------------------


def _parts(config: RunConfig, sizes: StepSize, num_rows: int | None = None) -> list[Part]:
    """All parts, with the learner that needs least if it is still open."""
    rows = num_rows or (config.num_envs if isinstance(config.num_envs, int) else 1)
    each = [list(_learner_parts(name, getattr(config, name), rows, sizes)) for name in _learners(config)]
    learner = min(each, key=lambda parts: sum(part.size for part in parts))
    return [*learner, *_other_parts(config, rows, sizes)]


def _learners(config: RunConfig) -> list[str]:
    """The learner, or while it is open those that the configuration has options for."""
    if config.learner != "auto":
        return [config.learner]
    return [name for name in option_classes() if name in config.model_fields_set] or list(option_classes())


def _learner_parts(name: str, options: Any, rows: int, sizes: StepSize) -> Iterator[Part]:
    def setting(key: str) -> Setting:
        return Setting(f"{name}.{key}", getattr(options, key))

    nets = _weights(options) * WEIGHT if sizes.nets is None else sizes.nets
    if nets:
        layers = [setting(key) for key in ("hidden", "recurrent", "num_critics") if getattr(options, key, None)]
        yield Part("nets and their optimizer", COPIES * nets, tuple(layers), True)
    envs = Setting("num_envs", rows)
    if hasattr(options, "rollout_length"):
        step = sizes.observation + sizes.action + sizes.outputs + PPO_STEP
        step += WEIGHT * (getattr(options, "recurrent", None) or 0)  # what a core remembers
        size = rows * options.rollout_length * step
        yield Part("the rollout", size, (setting("rollout_length"), envs), True)
    if isinstance(options, ReplayOptions):
        queued = sizes.observation + sizes.action + 2 * REPLAY_STEP
        size = rows * options.n_step * queued
        yield Part("the last steps of each env", size, (setting("n_step"), envs), True)
        pair = 2 * sizes.observation
        kept = (pair if sizes.replayed is None else sizes.replayed) + sizes.action + REPLAY_STEP
        yield Part("the replay buffer", options.buffer_size * kept, (setting("buffer_size"),), True)
        step, activations = pair + sizes.action + REPLAY_STEP, WEIGHT * sum(options.hidden)
        size = options.batch_size * (step + activations)
        yield Part("a batch", size, (setting("batch_size"),), True)


def _weights(options: Any) -> int:
    """At least so many weights, whatever the spaces are; 0 for nets of the user's own."""
    if not isinstance(options, (PPOOptions, ReplayOptions)) or options.network is not None:
        return 0
    core = getattr(options, "recurrent", None) or 0
    critic = getattr(options, "critic_hidden", None)
    critics = 1 if isinstance(options, PPOOptions) else getattr(options, "num_critics", 0)
    nets = [options.hidden, *[options.hidden if critic is None else critic] * critics]
    sizes = [pairwise([core or 1, *hidden, 1]) for hidden in nets]
    return 3 * core * (core + 1) + sum(before * after + after for net in sizes for before, after in net)


def _other_parts(config: RunConfig, rows: int, sizes: StepSize) -> Iterator[Part]:
    envs = Setting("num_envs", rows)
    yield Part("envs", rows * (ENV + sizes.observation), (envs,), config.backend == "cuda")
    if config.backend == "process" and config.workers is not None:
        workers = Setting("workers", config.workers)
        yield Part("worker processes", config.workers * WORKER_PROCESS, (workers,))
    evaluation = config.evaluation.episodes
    yield Part(
        "results of an evaluation",
        evaluation * EVALUATED_EPISODE * max(1, len(config.evaluation.opponents)),
        (Setting("evaluation.episodes", evaluation),),
    )
    devices = config.devices if isinstance(config.devices, int) else len(config.devices)
    processes = {"devices": devices}
    if config.cluster.kind == "ray" and config.cluster.address is None:
        processes |= {"cluster.nodes": config.cluster.nodes or 1, "cluster.learners": config.cluster.learners}
    for key, count in processes.items():
        yield Part("processes that learn or collect", (count - 1) * LEARNING_PROCESS, (Setting(key, count),))
    if config.backend == "cuda":
        yield from _parts_of_games(config, sizes.nets or WEIGHT)


def _parts_of_games(config: RunConfig, nets: int) -> Iterator[Part]:
    """What a GPU has places for from the start, where a CPU keeps only what there is."""
    if any(opponent.who == "archive" for phase in config.all_phases for opponent in phase.opponents):
        size = config.league.size
        yield Part("agents of the league", size * nets, (Setting("league.size", size),), True)
    games = max((phase.until.games for phase in config.phases if phase.until), default=0)
    yield Part("the latest games", 2 * GAME * games, (Setting("phases[].until.games", games),), True)


def _times(part: Part, key: str, count: int) -> Part:
    return replace(part, size=part.size * count, settings=(*part.settings, Setting(key, count)))


# --- what there is ----------------------------------------------------------------------------------------------------


def _free_memory() -> int:
    from rookery.engine.machine import available_memory  # it imports psutil

    return available_memory()


def _is_on_gpu(config: RunConfig) -> bool:
    """Whether the learner's buffers may be in a GPU's memory. While the device is open: wherever there is a driver."""
    if config.device != "auto":
        return config.device != "cpu"
    from rookery.kernel.gpu_driver import load_driver

    try:
        return load_driver() is not None
    except OSError:
        return False


def _compare(parts: Sequence[Part], free: int, where: str, config: RunConfig) -> None:
    needed = sum(part.size for part in parts)
    if needed <= free:
        return
    largest = max(parts, key=lambda part: part.size)
    found = _to_lower(parts, needed, free)
    error = MemoryShortage(
        f"this run needs about {size_text(needed)} of memory, {size_text(largest.size)} of it for {largest.what}, and "
        f"{where} has {size_text(free)} free: lower {' or '.join(each.text(part) for each, part in found)}"
    )
    setting, less = found[0][0], found[0][0].less(found[0][1])
    if config.on_out_of_memory == "lower" and setting.key.rpartition(".")[2] in LOWERED and less:
        error.lower = {setting.key: (setting.number, less)}
    raise error


def _to_lower(parts: Sequence[Part], needed: int, free: int) -> list[tuple[Setting, float]]:
    """The two settings that matter most, each with the fraction of its value that would fit. Of settings of about the
    same weight the largest number comes first: it is the one that somebody has raised."""
    settings = {setting.key: setting for part in parts for setting in part.settings if setting.number > 1}
    sizes = {key: sum(part.size for part in parts if settings[key] in part.settings) for key in settings}
    most = max(sizes.values())
    keys = sorted(settings, key=lambda key: (sizes[key] < most / 2, -settings[key].number))
    room = SAFE_SHARE * free - needed
    return [(settings[key], (room + sizes[key]) / sizes[key]) for key in keys if sizes[key] > needed / 100][:2]


def _check_agent(config: RunConfig) -> None:
    """Refuse nets that no checkpoint could hold."""
    options = {name: getattr(config, name) for name in _learners(config)}
    name, size = min(((name, _weights(each) * WEIGHT) for name, each in options.items()), key=lambda found: found[1])
    if size > LARGEST_AGENT:
        fits = Setting(f"{name}.hidden", options[name].hidden).text(LARGEST_AGENT / size)
        raise ConfigError(
            f"an agent of {size_text(size)} cannot be saved: at most {size_text(LARGEST_AGENT)} are; lower {fits}"
        )
