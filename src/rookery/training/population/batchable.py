"""Which runs can train side by side as one program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rookery.config import RunConfig
from rookery.errors import RookeryError
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.heads import CategoricalHead, GaussianHead, MultiCategoricalHead, head_for
from rookery.learners.learner import Learner
from rookery.learners.networks import MLP
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_run

# What members may have of their own. `world_options` may name other data or windows: each member has its own envs.
OWN_KEYS = {
    "name", "runs_dir", "seed", "steps", "episodes", "evaluation", "checkpoints", "monitor", "world_options", "tables",
    "search", "callbacks", "learning_rate",
}  # fmt: skip
OWN_NUMBERS = {
    "learning_rate", "learning_rate_schedule", "gamma", "gae_lambda", "clip", "clip_schedule", "clip_values", "entropy",
    "value_weight", "max_grad_norm", "target_kl", "normalise_advantages", "normalise_observations",
    "normalise_rewards", "epochs", "log_std",
}  # fmt: skip
HEADS = (CategoricalHead, MultiCategoricalHead, GaussianHead)


def why_not_batchable(configs: Sequence[RunConfig]) -> str:
    """Why these runs cannot train as one program; "" if they can: if they differ in numbers, seeds and windows only.

    >>> from rookery.config import build_config
    >>> alike = [build_config("CartPole-v1", learner="ppo", seed=seed) for seed in range(3)]
    >>> why_not_batchable(alike)
    ''
    >>> why_not_batchable([*alike, build_config("CartPole-v1", learner="ppo", ppo={"hidden": [32]})])
    '`ppo.hidden` differs: [64, 64] and [32]'
    """
    if not configs:
        return "there are no runs"
    reason = next(filter(None, map(_why_not_alone, configs)), "") or _difference(configs)
    return reason or _why_not_resolved([resolve_run(config) for config in configs])


def batchable_groups(configs: Sequence[RunConfig]) -> list[list[int]]:
    """The places of runs that can train side by side, group by group, in their order; one that cannot is a group of its
    own. Only kernel worlds are grouped: others would need the processes of all members at once."""
    groups: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        alone = _why_not_alone(config)
        key = f"alone {place}" if alone else json.dumps(_shared(config), sort_keys=True)
        groups.setdefault(key, []).append(place)
    found: list[list[int]] = []
    for places in groups.values():
        found += [places] if _is_worth_grouping([configs[place] for place in places]) else [[k] for k in places]
    return sorted(found)


def _is_worth_grouping(configs: Sequence[RunConfig]) -> bool:
    if len(configs) < 2:
        return False
    try:
        runs = [resolve_run(config) for config in configs]
    except RookeryError:  # training one by one will say which run it is
        return False
    return runs[0].config.backend in ("kernel", "cuda") and not _why_not_resolved(runs)


def _why_not_resolved(runs: Sequence[ResolvedRun]) -> str:
    """As `why_not_batchable`, of runs whose learner, recipe and engine are known."""
    configs = [run.config for run in runs]
    reason = next(filter(None, map(_why_not_alone, configs)), "") or _difference(configs)
    if reason or any(run.seat is None for run in runs):
        return reason
    seats = [run.seat for run in runs if run.seat is not None]
    if any(seat != seats[0] for seat in seats):
        return f"the spaces of their worlds differ: {seats[0]} and {next(seat for seat in seats if seat != seats[0])}"
    if configs[0].learner == "ppo" and not isinstance(head_for(seats[0].action_space, 0.0), HEADS):
        return f"actions of {seats[0].action_space} are not updated as one program"
    return ""


def why_not_learners(learners: Sequence[Learner]) -> str:
    """Why these learners cannot be updated together; "" if they can."""
    for learner in learners:
        if not isinstance(learner, PPO):
            return f"{type(learner).__name__} is not updated as one program: only PPO is"
        policy = learner.policy
        if policy.core is not None or policy.encoder.is_trained or not isinstance(learner.head, HEADS):
            return "recurrent policies, convolutions and nested actions are not updated as one program"
        if type(policy.actor) is not MLP or type(policy.critic) is not MLP:
            return "networks of your own, and of shared weights, are not updated as one program"
    shapes = [[tuple(p.shape) for p in learner.policy.parameters()] for learner in learners]
    return "" if all(shape == shapes[0] for shape in shapes) else "the shapes of their nets differ"


def _why_not_alone(config: RunConfig) -> str:
    """Why a run cannot be a member at all; a learner may still be "auto"."""
    if config.learner not in ("ppo", "auto"):
        return f"`learner` is {config.learner!r}: only ppo trains as one program"
    options = getattr(config, "ppo")  # noqa: B009 - sections of learners are made at run time
    if options.recurrent:
        return "`ppo.recurrent` is set: recurrent policies train one by one"
    if options.share_weights:
        return "`ppo.share_weights` is set: such policies train one by one"
    if getattr(options, "network", None):
        return "`ppo.network` is set: networks of your own train one by one"
    if config.has_curriculum:
        return "opponents, phases and a league are of one run each: such runs train one by one"
    if config.num_envs == "adaptive":
        return '`num_envs` is "adaptive": members need the same number of envs'
    return ""


def _difference(configs: Sequence[RunConfig]) -> str:
    """The first key that differs and may not."""
    first, *others = (_shared(config) for config in configs)
    for other in others:
        for key in first:
            if first[key] != other[key]:
                return f"`{key}` differs: {first[key]!r} and {other[key]!r}"
    return ""


def _shared(config: RunConfig) -> dict[str, Any]:
    """The values that all members need to have in common, by their dotted keys."""
    values: Mapping[str, Any] = config.model_dump(mode="json")
    sections = {name for name, value in values.items() if isinstance(value, Mapping)} - {"ppo", *OWN_KEYS}
    shared = {key: value for key, value in values.items() if key not in {*OWN_KEYS, *sections, "ppo"}}
    return shared | {f"ppo.{key}": value for key, value in values["ppo"].items() if key not in OWN_NUMBERS}
