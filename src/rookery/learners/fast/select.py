"""The one place where a learner's accelerator is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rookery.learners.fast.accelerator import Accelerator

# By the learner's class, best first: the first one that supports a learner serves it.
ACCELERATORS = {
    "PPO": (
        "fast.fused_ppo:FusedPPO",
        "device.fused_device_ppo:DevicePPO",
        "device.captured_ppo:CapturedPPO",
        "fast.fused_ppo:CompiledAdvantages",
    ),
    "DataParallelPPO": (  # those that step by `FlatAdam.step`, and can wait there
        "fast.fused_ppo:FusedPPO",
        "distributed.uncaptured_ppo:UncapturedPPO",
        "fast.fused_ppo:CompiledAdvantages",
    ),
    "LeadingPPO": ("fast.fused_ppo:FusedPPO", "fast.fused_ppo:CompiledAdvantages"),
    "VTracePPO": ("fast.fused_ppo:FusedPPO",),
    "DQN": ("fast.fused_dqn:FusedDQN",),
    "SAC": ("fast.team_sac:TeamSAC", "device.device_actor_critic:DeviceSAC"),
    "TD3": ("fast.team_td3:TeamTD3", "fast.fused_td3:FusedTD3", "device.device_actor_critic:DeviceTD3"),
}


def accelerate(learner: Any) -> Accelerator:
    """The accelerator of a learner; one that does nothing if none fits or the option `accelerate` is off."""
    names = ACCELERATORS.get(type(learner).__name__, ()) if learner.options.accelerate else ()
    if learner.device.type != "cpu":  # the others import Numba, which a run on a GPU does without
        names = tuple(sorted(names, key=lambda name: name.startswith("fast.")))
    for name in names:
        module, _, attribute = name.partition(":")
        candidate: type[Accelerator] = getattr(import_module(f"rookery.learners.{module}"), attribute)
        if candidate.supports(learner):
            return candidate(learner)
    return Accelerator(learner)
