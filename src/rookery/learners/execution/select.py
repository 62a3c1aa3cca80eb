"""The one place where a learner's accelerator is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rookery.learners.execution.accelerator import Accelerator

# By the learner's class, best first: the first one that supports a learner serves it.
ACCELERATORS = {
    "PPO": (
        "kernels.cpu.fused_ppo:FusedPPO",
        "kernels.gpu.fused_device_ppo:DevicePPO",
        "execution.captured_ppo:CapturedPPO",
        "kernels.cpu.fused_ppo:CompiledAdvantages",
    ),
    "DataParallelPPO": (  # those that step by `FlatAdam.step`, and can wait there
        "kernels.cpu.fused_ppo:FusedPPO",
        "execution.uncaptured_ppo:UncapturedPPO",
        "kernels.cpu.fused_ppo:CompiledAdvantages",
    ),
    "LeadingPPO": ("kernels.cpu.fused_ppo:FusedPPO", "kernels.cpu.fused_ppo:CompiledAdvantages"),
    "VTracePPO": ("kernels.cpu.fused_ppo:FusedPPO",),
    "DQN": ("kernels.cpu.fused_dqn:FusedDQN",),
    "SAC": ("kernels.cpu.team_sac:TeamSAC", "kernels.gpu.device_actor_critic:DeviceSAC"),
    "TD3": (
        "kernels.cpu.team_td3:TeamTD3",
        "kernels.cpu.fused_td3:FusedTD3",
        "kernels.gpu.device_actor_critic:DeviceTD3",
    ),
}


def accelerate(learner: Any) -> Accelerator:
    """The accelerator of a learner; one that does nothing if none fits or the option `accelerate` is off."""
    names = ACCELERATORS.get(type(learner).__name__, ()) if learner.options.accelerate else ()
    if learner.device.type != "cpu":  # the others import Numba, which a run on a GPU does without
        names = tuple(sorted(names, key=lambda name: name.startswith("kernels.cpu.")))
    for name in names:
        module, _, attribute = name.partition(":")
        candidate: type[Accelerator] = getattr(import_module(f"rookery.learners.{module}"), attribute)
        if candidate.supports(learner):
            return candidate(learner)
    return Accelerator(learner)
