"""The sentence about the bottleneck, for each place where the time can go."""

from __future__ import annotations

from typing import Any

import pytest

from rookery.monitor.bottleneck import advise

CASES = [
    ("env", {"backend": "serial", "num_envs": 8, "cores": 8}, "one after another; --backend process"),
    ("env", {"backend": "serial", "num_envs": 1, "cores": 8}, "--num-envs 8 would use the other cores"),
    ("env", {"backend": "serial", "num_envs": 8, "cores": 1}, "rookery profile"),
    ("env", {"backend": "process", "workers": 2, "cores": 2, "compiled": "rookery/X"}, "compiled version rookery/X"),
    ("env", {"backend": "process", "workers": 2, "cores": 8}, "more workers"),
    ("env", {"backend": "process", "workers": 8, "cores": 8}, "a faster step"),
    ("env", {"backend": "kernel", "workers": 1, "cores": 2}, "more threads"),
    ("env", {"backend": "kernel", "workers": 2, "cores": 2, "compiled": "rookery/X"}, "only a GPU"),
    ("env", {"backend": "cuda"}, "on the GPU"),
    ("waiting", {"backend": "process", "num_envs": 8, "workers": 8, "groups": 1}, "envs per worker or two groups"),
    ("waiting", {"backend": "process", "num_envs": 64, "workers": 8, "groups": 1}, "; two groups"),
    ("waiting", {"backend": "process", "num_envs": 64, "workers": 2, "groups": 2, "cores": 8}, "more workers"),
    ("waiting", {"backend": "process", "num_envs": 64, "workers": 8, "groups": 2, "cores": 8}, "a faster step"),
    ("policy", {"num_envs": 8}, "more envs (--num-envs)"),
    ("policy", {"num_envs": 512, "device": "cuda:0"}, "use the GPU"),
    ("policy", {"num_envs": 512, "device": "cpu"}, "a smaller network or a GPU"),
    ("learner", {"learner": "ppo", "device": "cpu"}, "larger minibatches, fewer epochs or a GPU"),
    ("learner", {"learner": "ppo", "device": "cuda"}, "larger minibatches or fewer epochs"),
    ("learner", {"learner": "sac", "device": "cpu"}, "fewer updates per step or a GPU"),
    ("gpu", {"learner": "sac", "device": "cuda"}, "waiting for the GPU; a smaller network, fewer updates per step"),
    ("gpu", {"learner": "ppo", "device": "mps"}, "waiting for the GPU; a smaller network, fewer epochs"),
    ("evaluation", {}, "fewer episodes (--eval-episodes)"),
    ("other", {}, "less frequent"),
]


@pytest.mark.parametrize(("part", "facts", "expected"), CASES)
def test_what_leads_is_named_with_a_remedy(part: str, facts: dict[str, Any], expected: str) -> None:
    sentence = advise({f"time/{part}": 0.78, "time/rest": 0.22}, facts)
    assert sentence.startswith("78 % of the time is spent on ") and sentence.endswith(".")
    assert expected in sentence


def test_a_share_below_half_leads_if_nothing_comes_near() -> None:
    shares = {"time/env": 0.4, "time/policy": 0.2, "time/learner": 0.2, "time/other": 0.2}
    assert advise(shares, {"backend": "serial"}).startswith("40 % of the time is spent on stepping")


def test_a_balanced_run_is_called_so() -> None:
    shares = {"time/env": 0.45, "time/learner": 0.45, "time/policy": 0.1}
    assert advise(shares, {}).startswith("The time is evenly spread (env 45 %, learner 45 %, policy 10 %)")


def test_missing_shares_say_nothing() -> None:
    assert advise({"time/env": None}, {}) == ""


@pytest.mark.parametrize(
    ("shares", "busy", "expected"),
    [
        ({"time/waiting": 0.7, "time/policy": 0.3}, 0.1, "GPU 10 % busy: it waits for envs."),
        ({"time/env": 0.6, "time/learner": 0.4}, 0.35, "GPU 35 % busy: it waits for envs."),
        ({"time/env": 0.2, "time/learner": 0.8}, 0.3, "GPU 30 % busy: it waits for the host, which starts its work."),
        ({"time/evaluation": 0.9, "time/learner": 0.1}, 0.3, "GPU 30 % busy: it waits for evaluations."),
        ({"time/other": 0.9, "time/learner": 0.1}, 0.3, "GPU 30 % busy: it waits for checkpoints and logs."),
        ({"time/gpu": 0.9, "time/waiting": 0.1}, 0.95, "GPU 95 % busy."),
        ({"time/waiting": 0.4, "time/policy": 0.3, "time/learner": 0.3}, 0.0, "GPU 0 % busy: it waits for the host"),
    ],
)
def test_what_a_gpu_waits_for(shares: dict[str, float], busy: float, expected: str) -> None:
    facts = {"device": "cuda:0", "learner": "sac"}
    assert expected in advise({**shares, "system/gpu": busy}, facts)
    assert "busy" not in advise(shares, facts)
    assert "busy" not in advise({**shares, "system/gpu": busy}, {"device": "cpu"})
