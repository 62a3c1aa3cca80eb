"""The configuration of a run: typed, validated before torch is loaded, and read from TOML, JSON or YAML.

A configuration has three layers: defaults, then tested settings for the world (a recipe), then what the user gives (a
file, then `--set`, then flags or keywords). `collect_config` collects the last one, `resolve` joins all three.

>>> from rookery.config import collect_config, resolve
>>> given = collect_config("CartPole-v1", ["ppo.hidden=[32, 32]", "steps=1e5"], n_envs=8)
>>> given
{'world': 'CartPole-v1', 'ppo': {'hidden': [32, 32]}, 'steps': 100000, 'num_envs': 8}
>>> config = resolve(given, recipe={"steps": 50_000, "ppo": {"gamma": 0.98}})
>>> config.steps, config.num_envs, config.ppo.hidden, config.ppo.gamma, config.ppo.epochs
(100000, 8, [32, 32], 0.98, 4)
"""

from __future__ import annotations

from rookery.config.fields import fields_help
from rookery.config.inputs import build_config, collect_changes, collect_config, resumed_config, user_config
from rookery.config.layers import merge, parse_override, parse_value, rename_old_keys
from rookery.config.reading import is_config, read_config
from rookery.config.schema import CheckpointOptions, EvaluationOptions, MonitorOptions, RunConfig
from rookery.config.sections import LeagueOptions, Opponent, Phase
from rookery.config.validation import check, resolve, with_recipe

__all__ = [
    "CheckpointOptions",
    "EvaluationOptions",
    "LeagueOptions",
    "MonitorOptions",
    "Opponent",
    "Phase",
    "RunConfig",
    "build_config",
    "check",
    "collect_changes",
    "collect_config",
    "fields_help",
    "is_config",
    "merge",
    "parse_override",
    "parse_value",
    "read_config",
    "rename_old_keys",
    "resolve",
    "resumed_config",
    "user_config",
    "with_recipe",
]
