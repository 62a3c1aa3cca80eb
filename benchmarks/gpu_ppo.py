"""PPO's and PQN's steps/s on a GPU, as `rookery.train` reaches them, with PureJaxRL in the same run:

    python benchmarks/gpu_ppo.py [--only rows pqn envs] [--peers DIR] [--peer-path DIR] [--json FILE] [--plot FILE]

- `rows`: CartPole in three settings, with statistics, truncation and checkpoints as in any run.
- `pqn`: PQN on CartPole, with PPO beside it.
- `recurrent`: PPO with a GRU on a world with Dict observations and action masks, beside PPO without one.
- `envs`: CartPole with 64 to 262,144 envs and 32 steps a rollout, as a drawing.

`--peers` is a folder with PureJaxRL's files and its script (`purejaxrl/bench.py`), `--peer-path` what it needs beside
jax, flax and optax: see gpu_peers.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from gpu_peers import add_peer_options, purejaxrl_rates, sb3_ppo_rate
from recall_world import Recall
from report import measured, parser_for, report

NEVER = 10**15  # steps
WARM_UP = 5  # rollouts before the measurement: the first ones compile and capture
SETTINGS = {(2_048, 128): 90e6, (8_192, 32): 160e6, (65_536, 32): 250e6}  # envs and steps of a rollout, must reach
CURVE = (64, 256, 1_024, 4_096, 16_384, 65_536, 262_144)
CURVE_STEPS = 32
PEER_CURVE = (1_024, 8_192, 65_536)  # each compiles for twenty seconds
UPDATE = {"epochs": 4, "minibatches": 4, "hidden": [64, 64]}
PQN_SETTING, PQN_LEAST = (65_536, 32), 100e6
RECURRENT_SETTING, CORE, RECURRENT_LEAST = (4_096, 32), 64, 0.5  # over PPO without a recurrent core


class Stopwatch(rookery.Callback):
    """Counts the steps of a run after its first rollouts, and ends the run after some seconds."""

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


def train_rate(
    num_envs: int,
    rollout_length: int,
    seconds: float = 3.0,
    device: str = "cuda",
    learner: str = "ppo",
    world: Any = "rookery/CartPole-v1",
    more: Mapping[str, Any] = MappingProxyType({}),
) -> float:
    """Steps per second of training, with a checkpoint in every second or so."""
    watch = Stopwatch(seconds)
    every = int(SETTINGS.get((num_envs, rollout_length), 100e6))
    options = {learner: {**UPDATE, "rollout_length": rollout_length, **more}}
    with tempfile.TemporaryDirectory() as folder, silence():
        rookery.train(
            world, learner=learner, num_envs=num_envs, steps=NEVER, device=device, runs_dir=folder,
            seed=1, callbacks=[watch], evaluation={"episodes": 10, "max_episodes": 10, "every": NEVER},
            checkpoints={"every": every}, monitor={"panel": False, "plot": False, "tensorboard": False}, **options,
        )  # fmt: skip
    return watch.rate


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Without the lines of a run."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def setting_rows(peers: Any, device: str) -> list[Row]:
    """The three settings of the table."""
    theirs = purejaxrl_rates([(*setting, 1e8 if setting[0] < 65_536 else 3e8) for setting in SETTINGS], peers)
    sb3 = sb3_ppo_rate(device)
    rows = []
    for (num_envs, steps), least in SETTINGS.items():
        rate, peer = train_rate(num_envs, steps, device=device), theirs.get((num_envs, steps))
        text = f"PureJaxRL {peer / 1e6:.1f} M/s ({rate / peer:.1f}x)" if peer else "PureJaxRL: not here"
        text += f", SB3 {sb3 / 1e6:.4f} M/s" if sb3 else ""
        what = f"PPO CartPole {num_envs:,} x {steps}, 4 epochs, 4 minibatches, 64x64"
        rows.append(Row(what, f"{rate / 1e6:.1f} M/s", text, rate / 1e6, least / 1e6, " M/s"))
    return rows


def pqn_rows(device: str) -> list[Row]:
    """PQN and PPO in the same setting, by turns; the best of two."""
    ppo, rate = (max(rates) for rates in zip(*(_both(device) for _ in range(2)), strict=True))
    num_envs, steps = PQN_SETTING
    what = f"PQN CartPole {num_envs:,} x {steps}, 4 epochs, 4 minibatches, 64x64"
    text = f"PPO {ppo / 1e6:.1f} M/s ({rate / ppo:.2f}x)"
    return [Row(what, f"{rate / 1e6:.1f} M/s", text, rate / 1e6, PQN_LEAST / 1e6, " M/s")]


def _both(device: str) -> tuple[float, float]:
    ppo, pqn = (train_rate(*PQN_SETTING, 2.0, device, learner) for learner in ("ppo", "pqn"))
    return ppo, pqn


def recurrent_rows(device: str) -> list[Row]:
    """With and without a recurrent core, by turns; the best of two."""
    cores: list[dict[str, Any]] = [{}, {"recurrent": CORE}]
    turns = [[train_rate(*RECURRENT_SETTING, 2.0, device, world=Recall, more=more) for more in cores] for _ in range(2)]
    without, rate = map(max, zip(*turns, strict=True))
    num_envs, steps = RECURRENT_SETTING
    what = f"PPO {num_envs:,} x {steps}, Dict and masks, 64x64 and a GRU of {CORE} / without the GRU"
    return [Row(what, f"{rate / 1e6:.2f} M/s", f"{without / 1e6:.2f} M/s", rate / without, RECURRENT_LEAST, "x")]


def measure_curve(peers: Any, device: str, envs: Sequence[int] = CURVE) -> dict[str, list[tuple[int, float]]]:
    """Steps/s by the number of envs, of both."""
    curve = {"rookery": [(n, train_rate(n, CURVE_STEPS, 2.0, device)) for n in envs], "PureJaxRL": []}
    if peers.curve:  # what was measured so far, if the peer takes longer than there is time
        peers.curve.write_text(json.dumps(curve))
    theirs = purejaxrl_rates([(n, CURVE_STEPS, 3e7 if n < 8_000 else 1e8) for n in PEER_CURVE], peers)
    return {**curve, "PureJaxRL": [(n, rate) for (n, _), rate in theirs.items()]}


def curve_rows(curve: dict[str, list[tuple[int, float]]]) -> list[Row]:
    """The drawing's numbers, as one row: more envs should not be slower."""
    rates = [rate for _, rate in curve["rookery"]]
    texts = [" ".join(f"{n:,}: {rate / 1e6:.1f}" for n, rate in curve[name]) for name in ("rookery", "PureJaxRL")]
    least = min(late / early for early, late in pairwise(rates))
    what = f"PPO CartPole, {CURVE[0]} to {CURVE[-1]:,} envs x {CURVE_STEPS}, M steps/s: each over the one before"
    return [Row(what, *texts, least, 0.9)]


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ("rows", "pqn", "recurrent", "envs"))
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw `envs` here")
    parser.add_argument("--curve", type=Path, metavar="FILE", help="write the numbers of `envs` here, as JSON")
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    add_peer_options(parser)
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")

    def envs() -> list[Row]:
        curve = measure_curve(args, args.device)
        if args.curve:
            args.curve.write_text(json.dumps(curve))
        if args.plot:
            from gpu_plot import draw

            draw(curve, args.plot)
        return curve_rows(curve)

    rows = {
        "rows": lambda: setting_rows(args, args.device), "pqn": lambda: pqn_rows(args.device),
        "recurrent": lambda: recurrent_rows(args.device), "envs": envs,
    }  # fmt: skip
    return report(measured(rows, args.only), "PPO on a GPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
