"""What only a GPU can show of the off-policy learners: run it there as a script. No pytest is needed.

PYTHONPATH=src:tests python tests/learners/device/gpu_offpolicy.py [cuda [LEARNER]]
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.learner import Learner, StepBatch
from rookery.learners.registry import DQNOptions, SACOptions, TD3Options, XQCOptions, make_learner

ENVS = 8
SEEN, PUSHES, CHOICES = spaces.Box(-2, 2, (3,)), spaces.Box(-2, 2, (1,)), spaces.Discrete(3)
SMALL = {
    "precision": "float32",
    "hidden": [64, 64],
    "start_steps": 64,
    "batch_size": 32,
    "buffer_size": 4096,
    "updates_per_step": 1.0,
}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sac": (SACOptions, {}),
    "sac, normalised, 3 steps": (
        SACOptions,
        {"n_step": 3, "normalise_observations": True, "normalise_rewards": True, "max_grad_norm": 1.0},
    ),
    "td3": (TD3Options, {}),
    "td3, prioritised, target_every 3": (TD3Options, {"prioritised": True, "target_every": 3}),
    "redq": (TD3Options, {"redq": True, "num_critics": 5, "updates_per_step": 2.0}),
    "xqc": (XQCOptions, {"critic_hidden": [64, 48]}),
    "xqc, no targets, 3 steps": (XQCOptions, {"critic_hidden": [64], "tau": 1.0, "n_step": 3, "policy_delay": 2}),
    "dqn": (DQNOptions, {"target_every": 7}),
    "dqn, plain": (DQNOptions, {"dueling": False, "double": False, "n_step": 1, "prioritised": False}),
    "dqn, scheduled": (DQNOptions, {"learning_rate_schedule": "linear"}),
}


def made(options: Any, settings: dict[str, Any], device: str, **others: Any) -> Learner:
    """A learner."""
    kind = {SACOptions: "sac", TD3Options: "td3", DQNOptions: "dqn", XQCOptions: "xqc"}[options]
    actions = CHOICES if kind == "dqn" else PUSHES
    learner = make_learner(kind, SEEN, actions, options(**SMALL | settings | others), ENVS, 3, device)
    assert isinstance(learner, Learner) and not learner.on_policy
    return learner


def play(learner: Learner, rounds: int, first: int = 0) -> None:
    """Random steps, the same for every learner."""
    rows, seen = slice(0, ENVS), np.random.default_rng(first).standard_normal((ENVS, 3), np.float32)
    for k in range(first, first + rounds):
        rng = np.random.default_rng(k + 1)
        learner.progress = k / 100
        learner.explore(seen, rows)
        seen = rng.standard_normal((ENVS, 3), np.float32)
        ended = rng.random(ENVS) < 0.1
        learner.record(rows, StepBatch(seen, rng.standard_normal(ENVS), ended, np.zeros(ENVS, np.bool_)))
        if learner.ready():
            learner.update()


def weights(learner: Learner) -> torch.Tensor:
    """All of them."""
    return torch.cat([adam.flat.detach().cpu() for adam in learner.adams])


def change_a_bit(learner: Learner) -> None:
    """The last one of the first weight of each layer."""
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            if parameter.ndim > 1:
                parameter.view(-1)[0] *= 1 + torch.finfo(torch.float32).eps


def captured_equals_eager(options: Any, settings: dict[str, Any], device: str) -> str:
    """Over at least 50 updates, and the same again from a checkpoint in the middle. Rounding grows: a plain learner
    that begins with one bit changed shows how much."""
    eager, rounded = (made(options, settings, device, accelerate=False) for _ in range(2))
    captured, again = (made(options, settings, device) for _ in range(2))
    change_a_bit(rounded)
    for learner in (eager, rounded, captured, again):
        play(learner, 24)
    assert captured.updates == eager.updates >= 50, captured.updates
    apart, by_rounding = (float((weights(eager) - weights(other)).abs().mean()) for other in (captured, rounded))
    assert torch.equal(weights(captured), weights(again)), "the same seed gave other weights"
    resumed = made(options, settings, device)
    resumed.load(captured.state())
    for learner in (captured, resumed):
        play(learner, 16, 24)
    assert torch.equal(weights(captured), weights(resumed)), "a resumed learner has other weights"
    graphs = [call.captured for call in captured.execution._groups.values()]
    found = f"eager and captured {apart:.1e} apart on average, and {by_rounding:.1e} with a bit changed"
    assert apart < max(10 * by_rounding, 1e-7), found
    return f"{captured.updates} updates, {found}, graphs {graphs}"


def main() -> int:
    """All cases; returns how many failed."""
    device, failed = (sys.argv[1:] or ["cuda"])[0], 0
    chosen = {name: case for name, case in CASES.items() if name.startswith(sys.argv[2] if sys.argv[2:] else "")}
    for name, (options, settings) in chosen.items():
        try:
            print(f"ok   {name}: {captured_equals_eager(options, settings, device)}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL {name}: {traceback.format_exc(limit=-4)}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
