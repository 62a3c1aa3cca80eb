"""Steps per second of stepping and of training with 1, 2, 4, 8 and 16 envs, for four worlds, as a table and a plot.

    python benchmarks/scaling.py                        # a few minutes; writes docs/scaling.png
    python benchmarks/scaling.py --quick --plot my.png  # under two minutes, less exact

Backend and workers are those that rookery chooses. Training is PPO with its default options; start, evaluation and
checkpoints do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rookery
from measure import stepper
from rookery import printing
from rookery.engine.machine import usable_cores
from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame, with_prefixes

ROOT = Path(__file__).parents[1]
ENVS = (1, 2, 4, 8, 16)
WARM_UP = 2  # rollouts before the measurement
STEPPING, TRAINING = "#1b6ca8", "#d1603d"


@dataclass(frozen=True)
class World:
    """A world by the names that `make_vec` and `train` know."""

    title: str
    stepped: str
    trained: str
    options: dict[str, Any]


SLOW = f"{Path(__file__).with_name('engine_worlds.py')}:Slow"
WORLDS = {
    "cartpole": World("CartPole-v1 (Gymnasium's)", "CartPole-v1", "CartPole-v1", {}),
    "1ms": World("an env of 1 ms", SLOW, SLOW, {"seconds": 1e-3}),
    "hockey": World("hockey (compiled)", "rookery/HockeyOne-v0", "hockey", {}),
    "gameboy": World("Game Boy", "rookery/GameBoy-v0", "gameboy", {"episode_length": 200}),
}


@dataclass(frozen=True)
class Measured:
    """What was measured with one number of envs."""

    world: str
    num_envs: int
    backend: str
    workers: int
    stepping: float  # steps per second
    training: float


class Stopwatch(rookery.Callback):
    """Counts the steps of a run from its third rollout on, and ends the run after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.rollouts, self.rate = seconds, 0, 0.0

    def on_rollout(self, run: Any) -> None:
        self.rollouts += 1
        if self.rollouts == WARM_UP:
            self.start, self.first = time.perf_counter(), run.step
        if self.rollouts <= WARM_UP:
            return
        elapsed = time.perf_counter() - self.start
        self.rate = (run.step - self.first) / elapsed
        if elapsed > self.seconds:
            run.stop("measured")


def measure(world: World, num_envs: int, seconds: float) -> Measured:
    """Step a world, then train on it."""
    envs = rookery.make_vec(world.stepped, num_envs, env_kwargs=world.options)
    try:
        stepping = stepper(envs, num_envs, seconds)()
        backend, workers = envs.backend, len(envs.stats()) if envs.backend == "process" else 1
    finally:
        envs.close()
    return Measured(world.title, num_envs, backend, workers, stepping, _train(world, num_envs, seconds))


def _train(world: World, num_envs: int, seconds: float) -> float:
    watch = Stopwatch(seconds)
    with tempfile.TemporaryDirectory() as folder, _silence():
        rookery.train(
            world.trained, learner="ppo", num_envs=num_envs, steps=10**9, compiled=False, device="cpu", runs_dir=folder,
            world_options=world.options, callbacks=[watch], evaluation={"episodes": 1, "every": 10**9},
            checkpoints={"every": 10**9}, monitor={"panel": False, "plot": False, "tensorboard": False},
        )  # fmt: skip
    return watch.rate


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Without the lines of the run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def print_results(results: list[Measured]) -> None:
    """One line per world and number of envs."""
    table = printing.table("", "world", "envs>", "backend", "stepping, steps/s>", "training, steps/s>")
    for one in results:
        backend = one.backend if one.workers == 1 else f"{one.backend}, {one.workers} workers"
        rates = (printing.rate(one.stepping), printing.rate(one.training))
        table.add_row(one.world, str(one.num_envs), backend, *rates)
    printing.print_table(printing.console(), table)
    print(f"\n{usable_cores()} cores; learner: PPO on the CPU")


def draw(results: list[Measured], file: Path, note: str) -> None:
    """One panel per world: both rates over the number of envs, on logarithmic axes."""
    titles = list(dict.fromkeys(one.world for one in results))
    figure = figure_class()(figsize=(9, 1 + 2.9 * ((len(titles) + 1) // 2)), layout="constrained", facecolor="white")
    for number, title in enumerate(titles):
        axes = figure.add_subplot((len(titles) + 1) // 2, 2, number + 1)
        _draw_world(axes, [one for one in results if one.world == title])
        axes.set_title(title, loc="left", fontsize=10.5, color=INK)
        if number == 0:
            axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    figure.supxlabel("envs", color=INK, fontsize=10)
    figure.suptitle(f"steps per second; {note}", x=0.012, ha="left", fontsize=11, color=INK)
    save_figure(figure, file, dpi=110)


def _draw_world(axes: Any, results: list[Measured]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    envs = [one.num_envs for one in results]
    for name, colour in (("stepping", STEPPING), ("training", TRAINING)):
        rates = [getattr(one, name) for one in results]
        axes.plot(envs, rates, color=colour, marker="o", markersize=4, linewidth=1.8, label=name)
        axes.plot(envs, [rates[0] * n / envs[0] for n in envs], color=colour, linewidth=0.8, linestyle=":", alpha=0.6)
    axes.plot([], [], color=PALE, linewidth=0.8, linestyle=":", label="n times the rate of 1 env")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(envs, [str(n) for n in envs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(with_prefixes())
    style_frame(axes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(WORLDS), default=list(WORLDS), help="the worlds to measure")
    parser.add_argument("--envs", nargs="+", type=int, default=list(ENVS), metavar="N", help="the numbers of envs")
    parser.add_argument("--quick", action="store_true", help="half a second for each figure instead of 3")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "scaling.png", metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    results: list[Measured] = []
    with printing.progress(len(options.only) * len(options.envs)) as advance:
        for name in options.only:
            for num_envs in options.envs:
                advance(f"{name}, {num_envs} envs")
                results.append(measure(WORLDS[name], num_envs, 0.5 if options.quick else 3.0))
    print_results(results)
    how = " (a quick measurement)" if options.quick else ""
    draw(results, options.plot, f"{usable_cores()} cores, PPO on the CPU{how}")
    print(f"plot: {options.plot}")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=2))


if __name__ == "__main__":
    main()
