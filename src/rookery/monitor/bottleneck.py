"""What limits the speed of a run, and what would help: one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from rookery.learners.own_learners import ON_POLICY
from rookery.monitor.formatting import PARTS, percent

MUCH = 0.5  # of the time: this part limits the run
MOST = 0.35  # of the time: this part limits the run, if no other is close
CLEAR_LEAD = 1.5
COMPILED = ("kernel", "cuda")
BUSY = 0.9  # of the time: a GPU that waits for nothing
FEW_ENVS = 64  # below this, a policy's forward pass costs about the same with twice as many envs


def advise(values: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """One sentence from the `time/...` shares of a progress event and the facts of the start event.

    Of the facts it uses `backend`, `num_envs`, `workers`, `device`, `learner`, `groups`, and where they are given
    `cores` (of this machine), `compiled` (the compiled version of the world) and `collectors` (of a cluster).
    Without shares it returns "". If the run has a GPU, `system/gpu` among the values is the share of the time in which
    it was busy.

    >>> serial = {"backend": "serial", "num_envs": 8, "cores": 8}
    >>> advise({"time/env": 0.78, "time/policy": 0.12, "time/learner": 0.1}, serial)
    '78 % of the time is spent on stepping envs one after another; --backend process would use the other cores.'
    >>> advise({"time/env": 0.78, "time/learner": 0.22}, {**serial, "compiled": "rookery/CartPole-v1"})
    '78 % of the time is spent on stepping envs; the compiled version rookery/CartPole-v1 is many times faster.'
    >>> advise({"time/learner": 0.7, "time/env": 0.3}, {"backend": "kernel", "learner": "ppo", "device": "cpu"})
    '70 % of the time is spent on the learner on the CPU; larger minibatches, fewer epochs or a GPU would help.'
    >>> advise({"time/env": 0.4, "time/policy": 0.28, "time/learner": 0.32}, serial)
    'The time is evenly spread (env 40 %, learner 32 %, policy 28 %); no single change would help much.'
    >>> on_gpu = {"device": "cuda", "num_envs": 512, "learner": "ppo"}
    >>> advise({"time/policy": 0.8, "time/waiting": 0.2, "system/gpu": 0.12}, on_gpu).partition(". ")[2]
    'GPU 12 % busy: it waits for the host, which starts its work.'
    >>> advise({}, serial)
    ''
    """
    shares = {part: values.get(f"time/{part}") or 0.0 for part in PARTS}
    first, second = sorted(shares, key=shares.__getitem__, reverse=True)[:2]
    if shares[first] <= 0:
        return ""
    if shares[first] < MUCH and not (shares[first] >= MOST and shares[first] >= CLEAR_LEAD * shares[second]):
        return _balanced(shares) + _gpu_waits(values, shares, facts)
    what, remedy = _LIMITS[first](facts)
    sentence = f"{percent(shares[first])} of the time is spent on {what}; {remedy}."
    return sentence + _gpu_waits(values, shares, facts)


def _gpu_waits(values: Mapping[str, Any], shares: Mapping[str, float], facts: Mapping[str, Any]) -> str:
    """How busy the run's GPU is and what it waits for; "" if that is not known, or there is little of it."""
    busy = values.get("system/gpu")
    if busy is None or not _on_gpu(facts):
        return ""
    if busy >= BUSY:
        return f" GPU {percent(busy)} busy."
    waited_for = {name: sum(shares[part] for part in parts) for name, parts in _GPU_WAITS_FOR.items()}
    return f" GPU {percent(busy)} busy: it waits for {max(waited_for, key=waited_for.__getitem__)}."


def _balanced(shares: Mapping[str, float]) -> str:
    largest = sorted((part for part in shares if shares[part] >= 0.1), key=shares.__getitem__, reverse=True)
    spread = ", ".join(f"{part} {percent(shares[part])}" for part in largest)
    return f"The time is evenly spread ({spread}); no single change would help much."


def _env(facts: Mapping[str, Any]) -> tuple[str, str]:
    backend, compiled = facts.get("backend"), facts.get("compiled")
    if compiled and backend not in COMPILED:
        return "stepping envs", f"the compiled version {compiled} is many times faster"
    if backend == "cuda":
        return "stepping envs on the GPU", "the world itself is the limit, which is the best case"
    if backend == "kernel":
        return "stepping compiled envs", _kernel_remedy(facts)
    if backend == "serial":
        return "stepping envs one after another", _serial_remedy(facts)
    if (facts.get("workers") or 1) < _cores(facts):
        return "stepping envs", f"more workers would use the other cores (there are {_cores(facts)})"
    return (
        "stepping envs on every core",
        "only a faster step would help: `rookery profile` shows which functions take the time",
    )


def _kernel_remedy(facts: Mapping[str, Any]) -> str:
    if (facts.get("workers") or 1) < _cores(facts):
        return "more envs (--num-envs) would use more threads"
    return "the world itself is the limit, and only a GPU would step it faster"


def _serial_remedy(facts: Mapping[str, Any]) -> str:
    if _cores(facts) == 1:
        return "there is only one core, so only a faster step would help: see `rookery profile`"
    if facts.get("num_envs") == 1:
        return "--num-envs 8 would use the other cores"
    return "--backend process would use the other cores"


def _waiting(facts: Mapping[str, Any]) -> tuple[str, str]:
    if facts.get("collectors"):
        return "waiting for collectors", "more nodes, or cores on them, would reduce the waiting"
    return "waiting for envs", " or ".join(_waiting_remedies(facts)) + " would reduce the waiting"


def _waiting_remedies(facts: Mapping[str, Any]) -> Iterator[str]:
    if (facts.get("num_envs") or 1) < 4 * (facts.get("workers") or 1):
        yield "more envs per worker"
    if (facts.get("groups") or 1) < 2:
        yield "two groups"
    elif (facts.get("workers") or 1) < _cores(facts):
        yield "more workers"
    else:
        yield "a faster step"


def _policy(facts: Mapping[str, Any]) -> tuple[str, str]:
    if (facts.get("num_envs") or 1) < FEW_ENVS:
        return "choosing actions", "with more envs (--num-envs) each forward pass would serve more of them"
    if _on_gpu(facts):
        return "choosing actions", "more envs (--num-envs) would use the GPU better"
    return "choosing actions", "a smaller network or a GPU would help"


def _learner(facts: Mapping[str, Any]) -> tuple[str, str]:
    on_policy = _is_on_policy(facts)
    less = "fewer epochs" if on_policy else "fewer updates per step"
    if _on_gpu(facts):
        return "the learner", f"larger {'minibatches' if on_policy else 'batches'} or {less} would help"
    larger = "larger minibatches, " if on_policy else "smaller batches, "
    return "the learner on the CPU", f"{larger}{less} or a GPU would help"


def _gpu(facts: Mapping[str, Any]) -> tuple[str, str]:
    less = "fewer epochs" if _is_on_policy(facts) else "fewer updates per step"
    return "waiting for the GPU", f"a smaller network, {less} or precision='bf16' would help"


def _evaluation(facts: Mapping[str, Any]) -> tuple[str, str]:
    return "evaluations", "less frequent ones (--eval-every) or fewer episodes (--eval-episodes) would help"


def _other(facts: Mapping[str, Any]) -> tuple[str, str]:
    return "checkpoints, logs and the rest", "less frequent checkpoints would help"


def _is_on_policy(facts: Mapping[str, Any]) -> bool:
    learner = facts.get("learner")
    if learner in ON_POLICY:
        return ON_POLICY[learner]
    from rookery.learners.registry import specs  # it takes as long to import as reading hundreds of runs

    return learner in {name for name, spec in specs().items() if spec.on_policy}


def _on_gpu(facts: Mapping[str, Any]) -> bool:
    return str(facts.get("device", "cpu")).startswith(("cuda", "mps"))


def _cores(facts: Mapping[str, Any]) -> int:
    return facts.get("cores") or os.cpu_count() or 1


_LIMITS = {
    "env": _env, "policy": _policy, "learner": _learner, "gpu": _gpu, "waiting": _waiting, "evaluation": _evaluation,
    "other": _other,
}  # fmt: skip
_GPU_WAITS_FOR = {
    "envs": ("env", "waiting"),
    "the host, which starts its work": ("policy", "learner", "gpu"),
    "evaluations": ("evaluation",),
    "checkpoints and logs": ("other",),
}
