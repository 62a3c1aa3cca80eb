"""What a search varies if nobody says so: a space for each learner, which always contains the configuration's own
settings."""

from __future__ import annotations

from typing import Any

from rookery.config import RunConfig
from rookery.lazy import load_object
from rookery.learners.registry import specs
from rookery.worlds import registry

Space = dict[str, Any]

GAMMAS = [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]
NETS = [[32, 32], [64, 64], [128, 128], [256, 256]]
SHARED: Space = {"learning_rate": {"log": [3e-5, 3e-3]}, "gamma": {"choice": GAMMAS}}
REPLAY: Space = SHARED | {
    "batch_size": {"choice": [64, 128, 256, 512]},
    "tau": {"log": [1e-3, 0.05]},
    "n_step": {"choice": [1, 3, 5]},
    "hidden": {"choice": [*NETS[1:], [400, 300]]},
}
OF_LEARNERS: dict[str, Space] = {
    "ppo": SHARED | {
        "gae_lambda": {"choice": [0.8, 0.9, 0.95, 0.98, 1.0]},
        "clip": {"choice": [0.1, 0.2, 0.3, 0.4]},
        "entropy": {"log": [1e-6, 0.05]},
        "epochs": {"log_int": [2, 20]},
        "max_grad_norm": {"log": [0.3, 5.0]},
        "learning_rate_schedule": {"choice": ["constant", "linear"]},
        "activation": {"choice": ["tanh", "relu"]},
        "hidden": {"choice": NETS},
    },
    "sac": REPLAY | {"updates_per_step": {"choice": [0.25, 0.5, 1.0]}, "start_steps": {"choice": [100, 1_000]}},
    "dqn": REPLAY | {
        "updates_per_step": {"choice": [0.125, 0.25, 0.5, 1.0]},
        "epsilon_end": {"log": [0.01, 0.2]},
        "dueling": {"choice": [True, False]},
        "prioritised": {"choice": [True, False]},
        "priority_exponent": {"uniform": [0.3, 0.9], "when": {"dqn.prioritised": True}},
    },
    "pqn": SHARED | {
        "q_lambda": {"choice": [0.3, 0.65, 0.8, 0.9, 0.95]},
        "epochs": {"log_int": [1, 10]},
        "epsilon_end": {"log": [0.005, 0.1]},
        "epsilon_fraction": {"choice": [0.1, 0.2, 0.5]},
        "learning_rate_schedule": {"choice": ["constant", "linear"]},
        "hidden": {"choice": NETS},
    },
    "td3": REPLAY | {"exploration_noise": {"log": [0.03, 0.5]}, "updates_per_step": {"choice": [0.25, 0.5, 1.0]}},
    "xqc": REPLAY | {"updates_per_step": {"choice": [0.5, 1.0, 2.0]}, "tau": {"choice": [0.005, 0.05, 1.0]}},
}  # fmt: skip
MULTIPLES = (0.125, 0.25, 0.5, 1, 2)  # of an own size, where only its order of magnitude is known to be right
FEWEST_STEPS, FEWEST_ROWS = 16, 32  # of a rollout, and of a minibatch


def default_space(config: RunConfig) -> Space:
    """The space of a configuration's world, if it has one for this learner, or of its learner; own settings are added
    to ranges and choices that do not hold them."""
    name, of_world = config.learner, _of_world(config)
    if any(key.startswith(f"{name}.") for key in of_world):
        return _with_own(of_world, config)
    found = {f"{name}.{key}": spec for key, spec in OF_LEARNERS.get(name, _known(name)).items()}
    if "rollout_length" in specs()[name].options.model_fields:
        found |= _rollouts(config)
    return _with_own(found | of_world, config)


def _of_world(config: RunConfig) -> Space:
    """The world's own space, without keys of other learners."""
    spec = registry.get(config.world) or registry.by_source(config.world)
    found = {} if spec is None or spec.search_space is None else load_object(spec.search_space)
    others = {name for name in specs() if name != config.learner}
    return {key: varied for key, varied in found.items() if key.partition(".")[0] not in others}


def _known(name: str) -> Space:
    """What an installed learner shares with all others."""
    return {key: spec for key, spec in SHARED.items() if key in specs()[name].options.model_fields}


def _rollouts(config: RunConfig) -> Space:
    """Numbers of envs, lengths of rollouts and minibatches around the configuration's own. A short run needs
    few envs, and so many updates; where a step costs next to nothing, fewer envs are no slower."""
    options, envs = config.learner_options, config.num_envs
    name = config.learner
    found: Space = {f"{name}.rollout_length": {"choice": _around(options.rollout_length, FEWEST_STEPS)}}
    if options.batch_size is not None:
        found[f"{name}.batch_size"] = {"choice": _around(options.batch_size, FEWEST_ROWS)}
    else:
        found[f"{name}.minibatches"] = {"choice": _around(options.minibatches, 1)}
    if isinstance(envs, int) and config.backend == "kernel":
        found["num_envs"] = {"choice": [n for n in _around(envs, 1) if n <= envs]}
    return found


def _around(own: int, least: int) -> list[int]:
    return sorted({own, *(int(own * factor) for factor in MULTIPLES if own * factor >= least)})


def _with_own(space: Space, config: RunConfig) -> Space:
    return {key: _holding(spec, _own(config, key)) for key, spec in space.items()}


def _own(config: RunConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    place = getattr(config, section)
    return place.get(name) if isinstance(place, dict) else getattr(place, name) if name else place


def _holding(spec: dict[str, Any], own: Any) -> dict[str, Any]:
    """A range or a list of choices that holds the own value too. A logarithm cannot hold 0: its lower end stands for
    it."""
    if own is None:
        return spec
    if "choice" in spec:
        choices = spec["choice"]
        return spec if own in choices else {**spec, "choice": _sorted([*choices, own])}
    (kind,) = (name for name in spec if name not in ("when", "step"))
    low, high = spec[kind]
    if not isinstance(own, (int, float)) or (own <= 0 and kind.startswith("log")):
        return spec
    return {**spec, kind: [min(low, own), max(high, own)]}


def _sorted(choices: list[Any]) -> list[Any]:
    try:
        return sorted(choices)
    except TypeError:
        return choices
