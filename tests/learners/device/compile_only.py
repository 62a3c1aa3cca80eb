"""Compiles the kernels of PPO or PQN for a GPU that is not here, and prints the memory on the chip that each one took.

    python compile_only.py CAPABILITY BYTES INPUTS HIDDEN PRECISION LEARNER

Triton compiles without a GPU. A learner acts and learns on the CPU, where launches of kernels do nothing but compile;
those that need more than BYTES fail as on a GPU.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from rookery.learners.kernels.gpu import kernel_choices
from rookery.learners.kernels.gpu.fused_device_ppo import DevicePPO, DevicePQN, has_room
from rookery.learners.learner import StepBatch
from rookery.learners.registry import make_learner, option_classes

ENVS, STEPS = 256, 4
launched: dict[str, int] = {}
_run = JITFunction.run


class AbsentGPU:
    """What Triton asks of a GPU before it compiles."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


def use_absent_gpu(capability: int, memory: int) -> None:
    """Compile for it from now on."""

    def compile_only(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        needed = _run(kernel, *args, grid=grid, warmup=True, **options).metadata.shared
        if needed > memory:
            raise OutOfResources(needed, memory, "shared memory")
        launched[kernel.fn.__name__] = max(needed, launched.get(kernel.fn.__name__, 0))

    driver.set_active(AbsentGPU(capability))
    JITFunction.run = compile_only
    properties = SimpleNamespace(major=capability // 10, shared_memory_per_block_optin=memory)
    torch.cuda.get_device_properties = lambda device: properties
    kernel_choices.programs_of = lambda device: 128


def act_and_learn(inputs: int, hidden: list[int], precision: str, name: str) -> bool:
    """One rollout and its update; returns whether such a GPU would be used for them."""
    options = option_classes()[name](
        rollout_length=STEPS, hidden=hidden, precision=precision, batch_size=256,
        normalise_observations=True, normalise_rewards=True,
    )  # fmt: skip
    observation_space = spaces.Box(-np.inf, np.inf, (inputs,), np.float32)
    actions = spaces.Box(-1, 1, (6,), np.float32) if name == "ppo" else spaces.Discrete(6)
    learner = make_learner(name, observation_space, actions, options, ENVS, 0, "cpu")
    accelerator, rows = (DevicePPO if name == "ppo" else DevicePQN)(learner), slice(0, ENVS)
    learner.begin_rollout()
    observations, never = torch.zeros(ENVS, inputs), torch.zeros(ENVS, dtype=torch.bool)
    learner.rollout.final_values = learner.rollout.new_array()
    for _ in range(STEPS):
        accelerator.explore(observations, rows, None)
        accelerator.record(rows, StepBatch(observations, torch.zeros(ENVS), never, never, None, None))
    learner.rollout.last = [observations]
    accelerator._update(0.2)
    return has_room(learner)


if __name__ == "__main__":
    use_absent_gpu(int(sys.argv[1]), int(sys.argv[2]))
    used = act_and_learn(int(sys.argv[3]), json.loads(sys.argv[4]), *sys.argv[5:7])
    print(json.dumps({"used": used, "launched": launched}))
