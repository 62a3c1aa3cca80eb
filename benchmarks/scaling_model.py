"""How fast synchronous PPO on a cluster can be: a model from measured parts, checked, and drawn for up to 1,024 nodes.

    python benchmarks/scaling_model.py [--collectors 1 2 4 8] [--busy] [--seconds 8] [--plot FILE] [--json FILE]

A rollout with k collectors takes `collect + k * each` seconds: collectors step their own envs at the same time, while
the learner sends weights to each, takes a rollout from each and learns from all of it. `collect` and `each` are made of
what is measured here with one collector: its steps, the learner's update, a call, the weights on their way out and a
rollout on its way back through the object store. The prediction for 2, 4 and 8 collectors is compared with runs.

The env waits for a millisecond and does not compute, so that a few cores can have eight collectors. With `--busy` it
computes for a millisecond, and each collector has eight envs in two worker processes. The run then has two cores for
each collector, where the machine has so many, and its learner and Ray have no others. On one machine arrays are not
copied over a network: for more nodes than that, a link of 10 Gbit/s is assumed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from cluster_runs import SETTINGS, Run, on_ray, running
from engine_rows import Row
from report import parser_for, report

ROOT = Path(__file__).parents[1]
LENGTH = 64
LINEAR = 0.9  # of k times the steps of one collector
LINK = 1.25e9  # bytes a second: 10 Gbit/s
WITHIN = 0.15  # of what the model may be off
DRAWN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Load:
    """What a collector steps."""

    world: str
    num_envs: int
    workers: int | None = None  # processes; without them the collector steps its envs itself

    @property
    def steps(self) -> int:
        """Of a rollout."""
        return self.num_envs * LENGTH


WAITING = Load("Waiting", 4)
BUSY = Load("Slow", 8, workers=2)


@dataclass(frozen=True)
class Parts:
    """What one rollout is made of, in seconds and bytes."""

    steps: int  # of one collector
    collect: float  # in a collector
    update: float  # of the learner, for the rollout of one collector
    call: float  # to a collector and back
    weights: float  # bytes, to every collector
    rollout: float  # bytes, from every collector
    link: float  # bytes a second of the learner's machine
    learners: int = 1
    tree: bool = False  # weights are handed on by those who have them
    overlap: bool = False  # collectors act while the learner learns, with weights one version old

    def seconds(self, collectors: int) -> float:
        """Of one rollout of all collectors."""
        copies = np.ceil(np.log2(collectors + 1)) if self.tree else collectors
        travel = (copies * self.weights + collectors * self.rollout) / self.link + collectors * self.call
        update = collectors * self.update / self.learners
        if self.overlap:
            return float(max(self.collect, travel, update))
        return float(self.collect + travel + update)

    def rate(self, collectors: int) -> float:
        """Steps per second of all envs."""
        return collectors * self.steps / self.seconds(collectors)

    def saturation(self) -> float:
        """Steps per second that no number of collectors exceeds."""
        return self.rate(10**7)

    def half(self) -> int:
        """Collectors with which half of the collectors' time is lost to waiting for the learner."""
        return next(k for k in range(1, 10**7) if self.rate(k) < 0.5 * k * self.rate(1))


REMEDIES = {
    "as it is": {},
    "collect while learning": {"overlap": True},
    "and 16 learners": {"overlap": True, "learners": 16},
    "and weights handed on in a tree": {"overlap": True, "learners": 16, "tree": True},
}


def measure_link(payload: int = 32 << 20) -> tuple[float, float]:
    """Seconds of a call without data, and bytes a second through the object store of this machine."""
    from rookery.cluster.ray_doctor import NodeProbe, clock_offset, rate_of, send_to
    from rookery.cluster.ray_transport import load_ray, open_ray

    with open_ray(None):
        ray = load_ray()
        probe = ray.remote(num_cpus=0)(NodeProbe).remote()
        ray.get(probe.facts.remote())
        call, _ = clock_offset(lambda: ray.get(probe.clock.remote()))
        rates = [rate_of(lambda: send_to(ray, probe), call), rate_of(lambda: ray.get(probe.make.remote(payload)), call)]
    return call, min(rates)


def config(load: Load, collectors: int) -> dict[str, Any]:
    """A run in which each collector has its own envs, whose steps take a millisecond."""
    world = f"{Path(__file__).parent / 'engine_worlds.py'}:{load.world}"
    stepped = {"backend": "serial"} if load.workers is None else {"workers": load.workers * collectors}
    own = {"world": world, "num_envs": load.num_envs * collectors, "ppo": {"rollout_length": LENGTH}, **stepped}
    return {**SETTINGS, **own, "world_options": {"seconds": 1e-3}, **on_ray(collectors)}


def measured_rate(run: Run, seconds: float) -> float:
    """Steps per second; the best of three slices, as other programs may disturb some."""
    run.wait_rollouts(5)
    rates = []
    for _ in range(3):
        began = time.monotonic()
        time.sleep(seconds)
        rates.append(run.speed(began, time.monotonic()))
    return float(np.nanmax(rates))


def time_shares(run: Run) -> dict[str, float]:
    """The parts of the time of a run, by its last report of progress."""
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    progress = [line for line in lines if line["kind"] == "progress" and "time/waiting" in line]
    return {key: value for key, value in progress[-1].items() if key.startswith("time/")}


def parts_of(
    rate: float, shares: dict[str, float], call: float, link: float, steps: int, weights: float, rollout: float
) -> Parts:
    """The parts, from a run with one collector."""
    seconds = steps / rate
    travel = call + (weights + rollout) / link
    waiting = shares["time/waiting"] * seconds
    return Parts(steps, max(0.0, waiting - travel), seconds - waiting, call, weights, rollout, link)


def sizes(load: Load) -> tuple[int, float, float]:
    """A collector's steps, and bytes of the weights and of its rollout: two perceptrons, and six arrays of a step."""
    from engine_worlds import Busy

    observation = int(np.prod(Busy.observation_space.shape)) * 4
    hidden = 64
    weights = 2 * 4 * (observation // 4 * hidden + hidden * hidden + 3 * hidden)
    return load.steps, weights, load.steps * (observation + 6 * 4)


@contextmanager
def cores_for(load: Load, collectors: int) -> Iterator[None]:
    """Let programs that are started have no more cores than so many collectors have workers."""
    every = os.sched_getaffinity(0)
    if load.workers is not None:
        os.sched_setaffinity(0, sorted(every)[: load.workers * collectors])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def compare(load: Load, collectors: Sequence[int], seconds: float) -> tuple[Parts, dict[int, float]]:
    """The model, and the rates that runs have."""
    call, link = measure_link()
    rates: dict[int, float] = {}
    parts: Parts | None = None
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        for k in collectors:
            with cores_for(load, k), running(config(load, k), Path(folder), f"run{k}") as run:
                rates[k] = measured_rate(run, seconds)
                print(f"{k} collectors: {rates[k]:,.0f} steps/s", file=sys.stderr)
                if k == 1:
                    parts = parts_of(rates[1], time_shares(run), call, link, *sizes(load))
    assert parts is not None
    return parts, rates


def rows(parts: Parts, rates: dict[int, float]) -> list[Row]:
    """What more collectors gain, and how far the model is off; with one it is right, as its parts are from there."""
    found = []
    for k, rate in rates.items():
        if k == 1:
            continue
        shown, off = f"{rate:,.0f}", abs(parts.rate(k) - rate) / rate
        found += [
            Row(f"{k} collectors: steps/s, over {k} times those of one", shown, "", rate / k / rates[1], LINEAR, ""),
            Row(f"{k} collectors: steps/s of the run, of the model, off by", shown, f"{parts.rate(k):,.0f}", off,
                WITHIN, "", most=True),
        ]  # fmt: skip
    return found


def far_away(parts: Parts) -> Parts:
    """The same over a network."""
    return replace(parts, link=LINK)


def saturation_text(parts: Parts) -> str:
    """A table of what happens beyond this machine, as Markdown."""
    lines = ["| | 16 nodes | 128 nodes | 1,024 nodes | at most | half is lost from |", "|---|---|---|---|---|---|"]
    for name, changes in REMEDIES.items():
        changed = replace(far_away(parts), **changes)
        cells = [f"{changed.rate(k):,.0f}" for k in (16, 128, 1024)]
        lines.append(f"| {name} | {' | '.join(cells)} | {changed.saturation():,.0f} | {changed.half():,} nodes |")
    return "\n".join(lines)


def draw(parts: Parts, rates: dict[int, float], file: Path) -> None:
    """Steps per second against nodes: what was measured, and what the model says."""
    from rookery.monitor.matplotlib_figure import INK, PALE, figure_class, save_figure, style_frame

    figure = figure_class()(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    colours = ("#d1603d", "#e0a030", "#1b6ca8", "#4a9d5b")
    for (name, changes), colour in zip(REMEDIES.items(), colours, strict=True):
        changed = replace(far_away(parts), **changes)
        axes.plot(DRAWN, [changed.rate(k) for k in DRAWN], color=colour, label=name)
    axes.plot(DRAWN, [k * parts.rate(1) for k in DRAWN], color=PALE, linestyle="--", label="linear")
    axes.plot(list(rates), list(rates.values()), "o", color=INK, label="measured")
    axes.set(xscale="log", yscale="log", xlabel="collectors, one a node", ylabel="steps/s of all envs")
    axes.legend(frameon=False)
    style_frame(axes)
    save_figure(figure, file)


def main() -> int:
    """Measure, compare, draw."""
    parser = parser_for(__doc__, ["model"])
    parser.add_argument("--collectors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--busy", action="store_true", help="steps that compute, on two cores for each collector")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a slice (%(default)s)")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "cluster-scaling.png")
    options = parser.parse_args()
    parts, rates = compare(BUSY if options.busy else WAITING, options.collectors, options.seconds)
    print(json.dumps(asdict(parts), indent=1))
    missed = report(rows(parts, rates), "the model beside runs", options.json)
    print(saturation_text(parts))
    draw(parts, rates, options.plot)
    return missed


if __name__ == "__main__":
    sys.exit(main())
