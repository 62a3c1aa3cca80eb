"""Parameters of studies that others made, by rookery's names: those of rl_zoo3, and options of Stable-Baselines3."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rookery.config.fields import fields
from rookery.config.layers import merge, nested
from rookery.config.translation import Translation
from rookery.errors import ConfigError
from rookery.learners.registry import option_classes

ONE_MINUS, POWER = "one_minus_", "_pow"
NETS = {"tiny": [64], "small": [64, 64], "medium": [256, 256], "big": [400, 300], "large": [256, 256, 256]} | {
    "verybig": [512, 512, 512]
}
# By the first of these options that a study has, its learner.
TELLING = {
    "clip_range": "ppo", "gae_lambda": "ppo", "exploration_final_eps": "dqn", "exploration_fraction": "dqn",
    "target_update_interval": "dqn", "policy_delay": "td3", "noise_std": "td3", "noise_type": "td3",
    "ent_coef": "sac", "tau": "sac",
}  # fmt: skip
NO_EQUAL = "has no equal here, and is omitted"


def origin(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """World, learner, num_envs and steps of a study of rl_zoo3, from the command that it records; {} without one."""
    words = _words(attributes.get("command"))
    flags = {"--algo": "learner", "--env": "world", "-n": "steps", "--n-timesteps": "steps"}
    found: dict[str, Any] = {flags[word]: value for word, value in pairwise(words) if word in flags}
    recorded = {"steps": attributes.get("n_timesteps"), "num_envs": attributes.get("n_envs")}
    for key, text in {**recorded, "steps": found.get("steps") or recorded["steps"]}.items():
        number = _number(text)
        found.pop(key, None)
        if number is not None and number >= 1:
            found[key] = int(number)
    return found


def guessed_learner(params: Mapping[str, Any]) -> str | None:
    """The learner whose options the parameters are; None if they do not tell."""
    names = sb3_options(params)
    sections = [name.partition(".")[0] for name in params if "." in name]
    told = [section for section in sections if section in option_classes()]
    return next(iter(told), None) or next((learner for name, learner in TELLING.items() if name in names), None)


def translated(params: Mapping[str, Any], learner: str, steps: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """The parameters as a configuration, and a note for each that has no equal.

    >>> translated({"one_minus_gamma": 0.01, "n_steps_pow": 7, "use_sde": True}, "ppo")[0]
    {'ppo': {'gamma': 0.99, 'rollout_length': 128}}
    """
    options = sb3_options(params)
    known = option_classes()[learner].model_fields
    translation = Translation({"learner": learner, "steps": steps, learner: options})
    found: dict[str, Any] = {}
    notes = []
    for name, value in options.items():
        if name in fields():  # a key of the configuration, such as "ppo.gamma" or "steps"
            found = merge(found, nested(name, value))
            continue
        try:
            changes = translation({learner: {name: value}})[learner]
        except ConfigError as error:
            notes.append(f"{_shown(name, params)} {NO_EQUAL}: {error}")
            continue
        good = {key: each for key, each in changes.items() if key in known}
        found = merge(found, {learner: good}) if good else found
        notes += [] if good else [f"{_shown(name, params)} {NO_EQUAL}"]
    return found, notes


def sb3_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """rl_zoo3's parameters as options of Stable-Baselines3: it samples 1 - gamma, powers of two and names of nets."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if name.startswith(ONE_MINUS) and _number(value) is not None:
            found[name.removeprefix(ONE_MINUS)] = round(1 - float(value), 10)
        elif name.endswith(POWER) and isinstance(value, int):
            found[name.removesuffix(POWER)] = 2**value
        elif name == "net_arch" and isinstance(value, str) and value in NETS:
            found[name] = NETS[value]
        elif name == "lr":
            found["learning_rate"] = value
        elif name == "noise_std":
            found["exploration_noise"] = value if params.get("noise_type", "normal") is not None else 0.0
        elif name not in ("noise_type", "subsample_steps"):
            found[name] = value
    if "train_freq" in found and "gradient_steps" not in found and isinstance(found["train_freq"], int):
        found["gradient_steps"] = max(1, found["train_freq"] // int(params.get("subsample_steps") or 1))
    return found


def _shown(name: str, params: Mapping[str, Any]) -> str:
    """The parameter by the name that the study has for it."""
    names = (name, f"{ONE_MINUS}{name}", f"{name}{POWER}")
    return f"`{next((each for each in names if each in params), name)}`"


def _words(command: Any) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return []


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
