"""How fast synchronous PPO on a cluster can be: a model from measured parts, checked, and drawn for up to 1,024 nodes.

    python benchmarks/scaling_model.py [--collectors 2 4 8] [--busy] [--seconds 8] [--plot FILE] [--json FILE]

A rollout with k collectors takes `collect + k * update + (k - 1) * travel` seconds: collectors step their own envs at
the same time, while the learner sends weights to each but its own, takes a rollout from each and learns from all of it.
All of these are measured here, with one collector: its steps, the learner's update, a call, the weights on their way
out and a rollout on its way back through the object store. The prediction for more collectors is compared with runs:
there the update is that of as many rows on the cores of as many collectors, measured without a run.

The env waits for a millisecond and does not compute, so that a few cores can have eight collectors. With `--busy` it
computes for a millisecond, and each collector has eight envs in two worker processes. The run then has two cores for
each collector, where the machine has so many, and its learner and Ray have no others. On one machine arrays are not
copied over a network: for more nodes than that, a link of 10 Gbit/s is assumed.

A number of collectors takes half a minute with `--seconds 2.5`; its rows are printed at once.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from engine_rows import Row
from report import measured, parser_for, report, said
from scaling_runs import BUSY, WAITING, Load, measure, measure_link, sizes, update_seconds

LINEAR = 0.9  # of k times the steps of one collector
LINK = 1.25e9  # bytes a second: 10 Gbit/s
WITHIN = 0.15  # of what the model may be off
DRAWN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


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
        others = collectors - 1  # the first one is the learner's own
        copies = np.ceil(np.log2(collectors)) if self.tree else others
        travel = (copies * self.weights + others * self.rollout) / self.link + others * self.call
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


def parts_of(
    rate: float, shares: dict[str, float], call: float, link: float, steps: int, weights: float, rollout: float
) -> Parts:
    """The parts, from a run with one collector, which is the learner's own."""
    seconds = steps / rate
    update = shares["time/learner"] * seconds
    return Parts(steps, seconds - update, update, call, weights, rollout, link)


def rows(parts: Parts, one: float, collectors: int, rate: float) -> list[Row]:
    """What more collectors than `one` gain, by steps per second, and how far the model is off."""
    shown, modelled = f"{rate:,.0f}", parts.rate(collectors)
    linear = rate / collectors / one
    name = f"{collectors} collectors: steps/s"
    return [
        Row(f"{name}, over {collectors} times those of one", shown, f"{one:,.0f}", linear, LINEAR, ""),
        Row(f"{name} of the run, of the model, off by", shown, f"{modelled:,.0f}", abs(modelled - rate) / rate,
            WITHIN, "", most=True),
    ]  # fmt: skip


class Comparison:
    """The model beside runs; `parts` and `rates` are there when the rows have been made."""

    parts: Parts

    def __init__(self, load: Load, collectors: Sequence[int], seconds: float) -> None:
        self._load, self._seconds = load, seconds
        self._collectors = [1, *sorted(set(collectors) - {1})]  # the parts come from the first
        self.rates: dict[int, float] = {}

    def rows(self) -> Iterator[Row]:
        """Measure, one number of collectors after the other."""
        link = measure_link()
        with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
            for k in self._collectors:
                run = measure(self._load, k, self._seconds, Path(folder))
                said(run.text(self._load.steps))
                self.rates[k] = run.rate
                if k == 1:
                    self.parts = parts_of(run.rate, run.shares, *link, *sizes(self._load))
                else:  # here the learner has the cores of all collectors
                    update = update_seconds(self._load, k) / k
                    yield from rows(replace(self.parts, update=update), self.rates[1], k, run.rate)


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
    from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame

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
    parser.add_argument("--collectors", type=int, nargs="+", default=[2, 4, 8], help="how many, beside one")
    parser.add_argument("--busy", action="store_true", help="steps that compute, on two cores for each collector")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a slice (%(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it there")
    options = parser.parse_args()
    compared = Comparison(BUSY if options.busy else WAITING, options.collectors, options.seconds)
    results = measured({"model": compared.rows}, options.only, options.json)
    missed = report(results, "the model beside runs", options.json)
    print(json.dumps(asdict(compared.parts), indent=1))
    print(saturation_text(compared.parts))
    if options.plot is not None:
        draw(compared.parts, compared.rates, options.plot)
    return missed


if __name__ == "__main__":
    sys.exit(main())
