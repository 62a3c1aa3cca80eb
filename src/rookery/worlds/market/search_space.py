"""What a search of the market worlds varies unless a configuration says otherwise, in the form of `[search.space]`.

The ranges are those that traders search with on 5-minute bars. A rollout of few envs can be shorter than a large
minibatch, which then is the whole rollout: so the length of the rollout varies too.
"""

from __future__ import annotations

from typing import Any

WIDTHS = (512, 768, 1024, 1536)  # of two hidden layers
PPO: dict[str, Any] = {
    "ppo.learning_rate": {"log": [1e-6, 1e-3]},
    "ppo.batch_size": {"choice": [2048, 4096, 8192]},
    "ppo.rollout_length": {"choice": [128, 256, 512]},
    "ppo.gamma": {"uniform": [0.88, 0.99]},
    "ppo.gae_lambda": {"uniform": [0.90, 0.99]},
    "ppo.clip": {"uniform": [0.1, 0.4]},
    "ppo.entropy": {"log": [1e-5, 2e-2]},
    "ppo.epochs": {"int": [4, 16]},
    "ppo.hidden": {"choice": [[width, width] for width in WIDTHS]},
}
CRYPTO: dict[str, Any] = {**PPO, "world_options.lookback": {"int": [1, 5]}}
FOREX: dict[str, Any] = {**PPO, "world_options.lookback": {"int": [1, 10]}}  # the world's own is 10
