"""Compares the captured PPO, some parts of which are Triton kernels, with the plain one. It is run as a process of its
own, as the interpreter must be chosen before Triton is imported."""

from __future__ import annotations

import torch

import learners.triton_interpreter  # noqa: F401 - first
from learners.device.held_together import fill, make
from rookery.learners.execution.rollout_device import CapturedPPO


def compare(kind: str, envs: int) -> None:
    plain, captured = (make(kind, "cpu", envs, 3, accelerate=False) for _ in range(2))
    captured.accelerator = CapturedPPO(captured)
    for ppo in (plain, captured):
        fill(ppo, 1)
    one, other = plain.evaluate_rollout(), captured.evaluate_rollout()
    assert captured.accelerator._has_kernels
    torch.testing.assert_close(other["advantages"], one["advantages"], rtol=1e-4, atol=1e-5)


def main() -> None:
    compare("recurrent", 19)
    compare("image", 2)


if __name__ == "__main__":
    main()
