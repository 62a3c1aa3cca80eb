"""Whether a search takes the machine's GPU, and how many workers share it."""

import random
from itertools import pairwise

import pytest

from rookery.config import build_config
from rookery.studies import gpu_share
from rookery.studies.study_config import divided, study_config

GIB = 1 << 30
WIDE = {"ppo.hidden": {"choice": [[512, 512], [1536, 1536]]}}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with so many free bytes, as far as a study's configuration goes."""

    def give(free, cores=16, memory=128 * GIB):
        monkeypatch.setattr(gpu_share, "has_nvidia_gpu", lambda: True)
        monkeypatch.setattr(gpu_share, "_free", lambda device: free)
        monkeypatch.setattr("rookery.studies.study_config.usable_cores", lambda: cores)
        monkeypatch.setattr("rookery.studies.study_config.available_memory", lambda: memory)

    return give


def searched(**keys):
    search = {"space": WIDE, "seeds": 6, "first_seeds": 6} | keys.pop("search", {})
    return build_config("rookery/CartPole-v1", **{"num_envs": 12, "learner": "ppo", "search": search} | keys)


def test_wide_nets_take_the_gpu(gpu):
    """An open device is the GPU for nets that are faster there; a study that was begun on a CPU stays there."""
    assert study_config(searched()).device == "auto"
    gpu(140 * GIB)
    assert study_config(searched()).device == "cuda"
    assert study_config(searched(search={"space": {"ppo.hidden": {"choice": [[64, 64]]}}})).device == "auto"
    assert study_config(searched(device="cpu")).device == "cpu"
    assert study_config(searched(), {"num_envs": 12, "device": "auto"}).device == "auto"


@pytest.mark.parametrize(
    ("free", "cores", "keys", "jobs"),
    [
        (140, 16, {}, 16),  # one for each core
        (140, 64, {}, 32),  # trials that are claimed at once
        (16, 16, {}, 5),  # memory of the GPU
        (1, 16, {}, 1),
        (140, 16, {"num_envs": 4096}, 1),  # one run fills the GPU
        (140, 16, {"search": {"jobs": 3}}, 3),
        (140, 16, {"search": {"n_trials": 5}}, 5),
    ],
)
def test_a_gpu_is_shared_by_as_many_as_fit(gpu, free, cores, keys, jobs):
    gpu(free * GIB, cores)
    assert divided(searched(device="cuda", **keys)).jobs == jobs


def least_bytes(nets, rows, batch):
    """What the six runs of a trial take at the least: an actor and a critic with the moments of Adam, a rollout, and
    the layers of a minibatch with their gradients."""
    layers = [gpu_share.INPUTS, *nets]
    weights = 2 * sum((inputs + 1) * outputs for inputs, outputs in pairwise(layers))
    return 6 * (16 * weights + 4 * rows * layers[0] + 4 * batch * 2 * 2 * sum(layers[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("free", [8, 16, 140])
def test_no_plan_needs_more_memory_than_is_free(gpu, free):
    """70 searches with nets, envs and rollouts of random sizes. One worker trains even if its trials may not fit: they
    are trained in halves then."""
    draw = random.Random(free)
    gpu(free * GIB, cores=64)
    shared = 0
    for _ in range(70):
        nets = [[draw.randrange(16, 2048)] * draw.randrange(1, 4) for _ in range(3)]
        envs, length, parts = draw.randrange(1, 200), draw.choice([64, 256, 1024]), draw.choice([1, 4, 32])
        space = {"ppo.hidden": {"choice": nets}, "ppo.rollout_length": {"int": [16, length]}}
        plan = {"num_envs": envs, "ppo": {"minibatches": parts}, "search": {"space": space}}
        base = searched(device="cuda", **plan)
        jobs = divided(base).jobs
        needed = max(least_bytes(net, envs * length, envs * length // parts) for net in nets)
        assert jobs <= 32 and (jobs == 1 or jobs * (gpu_share.CONTEXT + needed) <= free * GIB)
        shared += jobs > 1
    assert shared > 5  # else nothing was compared
