"""On a GPU: the captured learner and the plain one stay together, and a run repeats itself bit for bit.

    python benchmarks/gpu_held.py [KIND ...]

Prints one line for each kind of network: the difference of weights after 20 updates on the same rollouts, relative to
how far they moved, and whether a second run has the same bits. Weights must agree in float32. In lower precision they
are for information: where gradients are near zero, as on images of noise, Adam makes steps of full size of their
rounding.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from learners.device.held_together import KINDS, fill, make
from rookery.learners.algorithms.ppo import PPO

ENVS, STEPS, UPDATES = 8, 6, 20
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # a CPU shows only that the script works
PRECISIONS = ("float32", "tf32", "bf16")
MOST = 1e-3  # the largest difference in float32, as a share of the way


Trained = tuple[torch.Tensor, list[dict[str, float]]]


def rollout_of(ppo: PPO) -> dict[str, torch.Tensor]:
    """A copy of what was collected, without what is computed from it."""
    kept = ppo.rollout.tensors()
    return {name: value.clone() for name, value in kept.items() if name not in ("values", "final_values", "noise")}


def trained(kind: str, rollouts: list[dict[str, torch.Tensor]], **options: object) -> Trained:
    """Weights after an update on each rollout, and the metrics. New rollouts are added to an empty list."""
    ppo, metrics, is_first = make(kind, DEVICE, ENVS, STEPS, **options), [], not rollouts
    for seed in range(UPDATES):
        fill(ppo, seed)
        if is_first:
            rollouts.append(rollout_of(ppo))
        for name, value in rollouts[seed].items():  # lower precision samples other actions, once in a while
            ppo.rollout.tensors()[name].copy_(value)
        metrics.append(ppo.update())
    return ppo.adam.flat.detach(), metrics


def compare(kind: str) -> bool:
    """Print how far each precision is from the plain learner, exactly in float32."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    rollouts: list[dict[str, torch.Tensor]] = []
    weights, metrics = trained(kind, rollouts, accelerate=False)
    way, good, words = (weights - make(kind, DEVICE, ENVS, STEPS).adam.flat.detach()).norm(), True, []
    for precision in PRECISIONS:
        mine, mine_metrics = trained(kind, rollouts, precision=precision)
        apart = float((mine - weights).norm() / way)
        losses = max(abs(a["value"] - b["value"]) for a, b in zip(metrics, mine_metrics, strict=True))
        good &= apart < MOST or precision != "float32"
        words.append(f"{precision}: apart {apart:.1e}, value loss {losses:.1e}")
    same = torch.equal(*(trained(kind, [])[0] for _ in range(2)))
    good, words = good and same, [*words, f"a run repeats itself: {same}"]
    print(f"{kind:12s} {'good' if good else 'BAD '}  {'; '.join(words)}", flush=True)
    return good


def main() -> None:
    results = []
    for kind in sys.argv[1:] or KINDS:
        try:
            results.append(compare(kind))
        except Exception:  # noqa: BLE001 - the other kinds are still of interest
            traceback.print_exc()
            results.append(False)
    if not all(results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
