"""How a search uses a GPU: whether its trials take it, and how many workers share it.

A run with few envs leaves most of a GPU idle: between its kernels it waits for Python. So a GPU is shared by as many
workers as there are cores, if their memory fits, and each trains the folds or seeds of one trial as one program.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rookery.config import RunConfig
from rookery.console import say, size_text
from rookery.studies.space.space import SearchSpace, value_at
from rookery.studies.trials.plans import plan_for
from rookery.training.resolve.engine_choice import MANY_ENVS, has_nvidia_gpu

WIDE = 512  # units of a layer: from here on an update is faster on a GPU, however few envs there are
CONTEXT = 700 << 20  # bytes of a GPU that a process takes before its first tensor
PROCESS = 3 << 30  # bytes of the machine's memory, with CUDA's libraries
BYTES = 2 * 16  # of a parameter: weight, gradient and two moments, and as much for what torch keeps
FLOAT = 2 * 4  # bytes of a number of a batch, which is shuffled
INPUTS = 1024  # numbers of an observation, if there are not more
SAFE = 0.9  # of the free memory
MOST_TRIALS = 32  # at once: the sampler learns from those that have ended


def pays(base: RunConfig) -> bool:
    """Whether trials whose device is open should take the machine's GPU."""
    return (
        base.device == "auto"
        and base.backend == "kernel"
        and max(_widest(base), default=0) >= WIDE
        and has_nvidia_gpu()
    )


def gpu_jobs(base: RunConfig, cores: int, memory: int) -> int:
    """How many workers share the GPU of a study; `memory` are the free bytes of the machine."""
    envs = base.num_envs
    if not base.device.startswith("cuda") or not isinstance(envs, int) or envs >= MANY_ENVS:
        return 1  # what one run computes in a step fills the GPU
    needed, free = _gpu_memory(base), _free(base.device)
    jobs = max(1, min(cores, MOST_TRIALS, int(SAFE * free) // needed, memory // PROCESS))
    say(
        f"{jobs} workers share {base.device}: each may need {size_text(needed)} of its {size_text(free)}, and there "
        f"are {cores} cores; --jobs sets another number"
    )
    return jobs


def _free(device: str) -> int:
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def _gpu_memory(base: RunConfig) -> int:
    """Bytes that the runs of a trial may take on the GPU, with the widest nets and the largest batches of the space."""
    layers = [INPUTS, *_widest(base)]
    parameters = 2 * sum(one * next_one for one, next_one in pairwise(layers))  # of an actor and a critic
    rows, batch = _rows(base)
    numbers = rows * INPUTS + batch * 2 * 2 * sum(layers)  # of a layer: values and their gradients
    runs = len(plan_for(base).first_parts(base))
    return CONTEXT + runs * (BYTES * parameters + FLOAT * numbers)


def _rows(base: RunConfig) -> tuple[int, int]:
    """The largest rollout of a run, in rows, and the largest minibatch of it; both 0 for learners with a replay."""
    learner = base.learner
    if not hasattr(base.learner_options, "rollout_length"):
        return 0, 0
    rows = max(_values(base, "num_envs")) * max(_values(base, f"{learner}.rollout_length"))
    given = [size for size in _values(base, f"{learner}.batch_size") if size]
    fewest = min(_values(base, f"{learner}.minibatches"))
    return rows, min(rows, max(given)) if given else -(-rows // fewest)


def _widest(base: RunConfig) -> list[int]:
    """The layers of the largest nets that a trial may have."""
    nets = _values(base, f"{base.learner}.hidden")
    return max(map(list, nets), key=lambda layers: sum(units**2 for units in layers))


def _values(base: RunConfig, key: str) -> list[Any]:
    """What a key may be in a trial: the largest and the smallest value are among them."""
    dimension = next((one for one in SearchSpace.of(base).dimensions if one.key == key), None)
    return [value_at(base, key)] if dimension is None else dimension.edges
