"""PPO by RLlib, for `cluster_rllib.py`: `python benchmarks/rllib_side.py SETTINGS`, with the interpreter of a virtual
environment that has `ray[rllib]` and torch, and not rookery. After every iteration it says how far it is."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")  # before Ray is imported: the machine may be busy
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
TOLD = "told"  # as `cluster_runs.py` reads it


def algorithm(settings: dict[str, Any]) -> Any:
    """RLlib's PPO on its new stack, with the learner in this process, as it is with rookery."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.tune.registry import register_env

    from engine_worlds import Slow

    register_env("slow", lambda config: Slow())
    runners, envs = settings["runners"], settings["envs"]
    net = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    config = (
        PPOConfig()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .environment(settings["env"])
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=envs // runners,
            rollout_fragment_length=settings["rollout_length"],
        )
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=envs * settings["rollout_length"],
            minibatch_size=settings["minibatch"],
            num_epochs=settings["epochs"],
            lr=3e-4,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            vf_loss_coeff=0.5,
            grad_clip=0.5,
            use_kl_loss=False,
        )
        .rl_module(model_config=net)
    )
    return config.build_algo()


def main() -> None:
    """Train until killed."""
    import ray

    settings = json.loads(sys.argv[1])
    folder = str(Path(__file__).parent)
    ray.init(
        num_cpus=settings["cpus"],
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": folder, "PYTHONWARNINGS": "ignore"}},
    )
    algo, steps = algorithm(settings), 0
    while True:
        result = algo.train()
        steps = int(result["num_env_steps_sampled_lifetime"])
        print(TOLD, time.monotonic(), steps, flush=True)


if __name__ == "__main__":
    main()
