"""On a GPU: the captured learner and the plain one stay together, and a run repeats itself bit for bit.

    python benchmarks/gpu_held.py

Prints one line for each kind of network: the largest difference of weights after 20 updates, relative to how far they
moved, and whether a second run has the same bits.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from learners.device.held_together import KINDS, fill, make

ENVS, STEPS, UPDATES = 8, 6, 20
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # a CPU shows only that the script works
PRECISIONS = {"float32": 2e-3, "tf32": 0.1, "bf16": 0.4}  # the largest difference, as a share of the way


def trained(kind: str, updates: int, **options: object) -> tuple[torch.Tensor, list[dict[str, float]], torch.Tensor]:
    """Weights after so many updates, metrics of each, and the weights before."""
    ppo = make(kind, DEVICE, ENVS, STEPS, **options)
    before, metrics = ppo.adam.flat.detach().clone(), []
    for seed in range(updates):
        fill(ppo, seed)
        metrics.append(ppo.update())
    return ppo.adam.flat.detach(), metrics, before


def plain(kind: str) -> tuple[torch.Tensor, list[dict[str, float]], torch.Tensor]:
    """The learner without an accelerator, exactly in float32."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return trained(kind, UPDATES, accelerate=False)


def compare(kind: str) -> bool:
    """Print how far each precision is from the plain learner."""
    weights, metrics, before = plain(kind)
    way, good = (weights - before).norm(), True
    words = []
    for precision, most in PRECISIONS.items():
        mine, mine_metrics, _ = trained(kind, UPDATES, precision=precision)
        same = precision == "tf32" or torch.equal(mine, trained(kind, UPDATES, precision=precision)[0])
        apart = float((mine - weights).norm() / way)
        losses = max(abs(a["value"] - b["value"]) for a, b in zip(metrics, mine_metrics, strict=True))
        good &= apart < most and same
        words.append(f"{precision}: apart {apart:.1e}, value loss {losses:.1e}, repeats {same}")
    print(f"{kind:12s} {'good' if good else 'BAD '}  {'; '.join(words)}", flush=True)
    return good


def main() -> None:
    results = []
    for kind in KINDS:
        try:
            results.append(compare(kind))
        except Exception:  # noqa: BLE001 - the other kinds are still of interest
            traceback.print_exc()
            results.append(False)
    if not all(results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
