"""The one place where it is chosen how a learner is executed, and by which accelerator: by its algorithm and device, by
whether its envs return tensors, and by the processes of its run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

from rookery.learners.accelerator import Accelerator
from rookery.learners.execution.rollout_host import RolloutHost
from rookery.learners.execution.rollout_values import ValueRollout

if TYPE_CHECKING:
    from rookery.learners.execution.ranks import Ranks  # it imports torch.distributed

# By the algorithm's class, best first: the first one that supports a learner serves it.
ACCELERATORS = {
    "rookery.learners.algorithms.ppo:PPO": (
        "kernels.cpu.fused_ppo:FusedPPO",
        "kernels.gpu.fused_device_ppo:DevicePPO",
        "execution.rollout_device:CapturedPPO",
        "kernels.cpu.fused_ppo:CompiledAdvantages",
    ),
    "rookery.learners.algorithms.pqn:PQN": (
        "kernels.cpu.fused_pqn:FusedPQN",
        "kernels.gpu.fused_device_ppo:DevicePQN",
        "execution.rollout_device:CapturedRollout",
        "kernels.cpu.fused_ppo:CompiledAdvantages",
    ),
    "rookery.learners.algorithms.dqn:DQN": ("kernels.cpu.fused_dqn:FusedDQN",),
    "rookery.learners.algorithms.sac:SAC": (
        "kernels.cpu.team_sac:TeamSAC",
        "kernels.gpu.device_actor_critic:DeviceSAC",
        "kernels.gpu.device_actor_critic:SquashedSAC",
    ),
    "rookery.learners.algorithms.td3:TD3": (
        "kernels.cpu.team_td3:TeamTD3",
        "kernels.cpu.fused_td3:FusedTD3",
        "kernels.gpu.device_actor_critic:DeviceTD3",
    ),
    "rookery.learners.algorithms.xqc:XQC": (
        "kernels.cpu.host_xqc:HostXQC",
        "kernels.gpu.device_actor_critic:SquashedXQC",
    ),
}


def execute(learner: Any, make: Callable[[Any], Any] | None = None) -> None:
    """Give a new learner its execution, and its accelerator. `make` is one of a run with several processes."""
    learner.execution = (make or _on_device(learner))(learner)
    learner.accelerator = accelerate(learner)


def _on_device(learner: Any) -> Callable[[Any], Any]:
    if learner.on_policy:
        return ValueRollout if hasattr(learner, "exploration") else RolloutHost
    # Inside: PPO on a GPU needs neither, and both import Numba, which takes seconds of a start.
    if learner.device.type == "cpu":
        from rookery.learners.execution.replay_host import ReplayHost

        return ReplayHost
    from rookery.learners.execution.replay_device import ReplayDevice

    return ReplayDevice


def use_tensor_envs(learner: Any) -> Any:
    """Envs will return tensors on this learner's device: before its first step, and before `load`. Returns how it is
    executed from now on. Rollouts take tensors as they are."""
    if not learner.on_policy:
        from rookery.learners.execution.replay_device import ReplayDevice, RoundDevice

        now = learner.execution
        if not isinstance(now, RoundDevice):
            learner.execution = RoundDevice(learner, now.replay if isinstance(now, ReplayDevice) else None)
    return learner.execution


def execution_of_run(
    *, corrected: bool = False, leads: bool = False, ranks: Ranks | None = None
) -> Callable[[Any], Any] | None:
    """That of PPO in a run with several processes: its collectors do not wait for it (`corrected`), others help to
    compute its gradients (`leads`), or it is one of `ranks`. None for one process."""
    if corrected:
        return partial(RolloutHost, corrected=True)
    if not leads and ranks is None:
        return None
    from rookery.learners.execution.shared import DataParallel, Leading

    return Leading if leads or ranks is None else partial(DataParallel, ranks=ranks)


def accelerate(learner: Any) -> Accelerator:
    """The accelerator of a learner; one that does nothing if none fits or the option `accelerate` is off. A subclass of
    an algorithm keeps those that stand for methods which it has not overridden."""
    known = [(base, f"{base.__module__}:{base.__qualname__}") for base in type(learner).__mro__]
    base, names = next(((base, ACCELERATORS[name]) for base, name in known if name in ACCELERATORS), (object, ()))
    if learner.device.type != "cpu":  # the others import Numba, which a run on a GPU does without
        names = tuple(sorted(names, key=lambda name: name.startswith("kernels.cpu.")))
    for name in names if learner.options.accelerate else ():
        module, _, attribute = name.partition(":")
        suits = learner.execution.accelerated_by
        if suits is not None and attribute not in suits:
            continue
        candidate: type[Accelerator] = getattr(import_module(f"rookery.learners.{module}"), attribute)
        inherited = all(_method(type(learner), each) is _method(base, each) for each in candidate.replaces)
        if inherited and candidate.supports(learner):
            return candidate(learner)
    return Accelerator(learner)


def plain_note(learner: Any) -> str:
    """Which networks of a learner the kernels do not know, so that PyTorch computes them; "" if there are none."""
    options = learner.options
    unequal = getattr(options, "critic_hidden", None) not in (None, getattr(options, "hidden", None))
    if not options.accelerate or "gradient_step" in learner.accelerator.replaces:
        return ""
    if options.network is not None:
        return "`network`: PyTorch computes a network of your own, without the compiled kernels"
    if getattr(options, "share_weights", False):
        return "`share_weights`: PyTorch computes networks that assets share, without the compiled kernels"
    if unequal and learner.on_policy and learner.device.type == "cuda":
        return "`critic_hidden`: PyTorch computes an actor and a critic of different widths, without the GPU's kernels"
    return ""


def _method(owner: type, name: str) -> Any:
    return getattr_static(owner, name, None)
