"""From a current configuration to the content of an old file, if the old format has all options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rookery.config.curriculum_json.names import (
    AGENT_FIELDS,
    HYPERPARAMETERS,
    LEARNING,
    OLD_DEFAULTS,
    REPLACED_KEYS,
    STEPS_FROM,
)
from rookery.config.curriculum_json.phases_to_json import SHARES, PhaseWriter
from rookery.config.schema import RunConfig
from rookery.config.validation import join_problems, resolve
from rookery.errors import ConfigError
from rookery.learners.learner_spec import Options
from rookery.learners.registry import DQNOptions, SACOptions, option_classes
from rookery.worlds import registry

NOISES = {"gaussian": "normal", "pink": "pink"}
# Written even if they are rookery's defaults, because the old defaults may differ.
ALWAYS = ("learning_rate", "batch_size", "hidden", "gamma", "start_steps")
# Intervals between two checkpoints or evaluations: old name, section, key.
EVERY = (
    ("checkpoint_save_freq", "checkpoints", "every_episodes"),
    ("checkpoint_frequency", "checkpoints", "every"),
    ("eval_frequency", "evaluation", "every"),
    ("eval_frequency", "evaluation", "every_episodes"),
)
# The old name of each option: the first of its names.
OLD = {learner: {new: old for old, new in reversed(names.items())} for learner, names in AGENT_FIELDS.items()}


def to_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """The content of an old file of the same meaning as the result of `collect_config`.

    Raises:
        ConfigError: The old format lacks some options; the message lists them.
    """
    config = resolve(given)
    problems: list[str] = []
    phases = PhaseWriter(config, problems)
    curriculum = {"phases": [phases.write(number, phase) for number, phase in enumerate(config.phases)]}
    if not config.phases:
        problems.append("a run without `phases`")
    every, taken = _every(config)
    training = phases.time_limit() | every
    if config.reward_scale != 1.0:
        training["reward_scale"] = config.reward_scale
    agent, own = _agent(config, given, problems)
    common = {name: own.pop(name) for name in HYPERPARAMETERS if name in own}
    training |= {name: own.pop(name) for name in LEARNING if name in own}
    if problems:
        raise ConfigError(
            join_problems([f"an old curriculum file cannot express this: {problem}" for problem in problems])
        )
    sections = {"curriculum": curriculum, "hyperparameters": common, "training": training}
    if agent:
        sections["agent"] = {"type": agent, "hyperparameters": own}
    return {name: part for name, part in sections.items() if part} | _current_keys(config, given, taken)


def _every(config: RunConfig) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Intervals that the old format has, and the current keys that they replace. One name serves for steps and for
    episodes; the size of the number distinguishes them."""
    found: dict[str, Any] = {}
    taken = []
    for name, section, key in EVERY:
        number = getattr(getattr(config, section), key)
        fits = name == "checkpoint_save_freq" or ((number or 0) >= STEPS_FROM) == (key == "every")
        if number is not None and fits and name not in found:
            found[name] = number
            taken.append((section, key))
    return found, taken


# --- the learner --------------------------------------------------------------------------------------------------


def _agent(config: RunConfig, given: Mapping[str, Any], problems: list[str]) -> tuple[str, dict[str, Any]]:
    """The old type of the agent, and all of its options by their old names."""
    learner = config.learner
    for name in option_classes():
        rest = {key: value for key, value in given.get(name, {}).items() if key != "learning_rate"}
        if rest and learner not in ("auto", name):
            problems.append(f"the section `{name}`, beside `learner` = {learner!r}")
    if learner == "dqn":
        return _dqn(getattr(config, learner), config.world_options, problems)
    if learner == "sac":
        return "SAC", _sac(getattr(config, learner), problems)
    if learner != "auto":
        problems.append(f"`learner` = {learner!r}, because only DQN and SAC can be written")
        return "", {}
    return "", _any_learner(given, problems)


def _dqn(options: DQNOptions, world: Mapping[str, Any], problems: list[str]) -> tuple[str, dict[str, Any]]:
    kind = "DDQN_PER" if options.prioritised else "DDDQN"
    found = _renamed(options, DQNOptions(**OLD_DEFAULTS[kind]), "dqn", problems, ("loss", "tau", "target_every"))
    found |= {"eps": options.epsilon_start, "eps_min": options.epsilon_end, "use_huber_loss": options.loss == "huber"}
    if options.tau != 1.0:
        found["tau"] = options.tau
    if options.tau == 1.0 or options.target_every != 1:  # alone it means full copies
        found["target_update_freq"] = options.target_every
    if "action_fineness" in world:
        found["action_fineness"] = world["action_fineness"]
    return kind, found


def _sac(options: SACOptions, problems: list[str]) -> dict[str, Any]:
    found = _renamed(options, SACOptions(), "sac", problems, ("temperature", "temperature_start", "noise"))
    learned = options.temperature == "auto"
    alpha = options.temperature_start if learned else options.temperature
    return found | {"noise": NOISES[options.noise], "alpha": alpha, "learn_alpha": learned}


def _renamed(
    options: Options, usual: Options, learner: str, problems: list[str], apart: Iterable[str]
) -> dict[str, Any]:
    """Options that differ from the old agent's defaults, by their old names; `apart` are written elsewhere."""
    names = OLD[learner] | {new: old for old, new in LEARNING.items()}
    each = options.updates_each  # type: ignore[attr-defined]
    found: dict[str, Any] = {}
    if each == "round":
        found["updates_per_step"] = options.updates_per_step  # type: ignore[attr-defined]
    for option in type(options).model_fields:
        value = getattr(options, option)
        if option in ("updates_each", "threads", *apart) or (option == "updates_per_step" and each == "round"):
            continue
        if value == getattr(usual, option) and option not in ALWAYS:
            continue
        if option == "updates_per_step":
            problems.append(f'`{learner}.updates_per_step`, unless `{learner}.updates_each` is "round"')
        elif option not in names:
            problems.append(f"`{learner}.{option}` = {value!r}")
        else:
            found[names[option]] = value
    return found


def _any_learner(given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Without a type of agent: only options that are the same for SAC and DQN."""
    sac, dqn = dict(given.get("sac", {})), dict(given.get("dqn", {}))
    if sac != dqn:
        problems.append('different options in `sac` and `dqn`, while `learner` is "auto"')
        return {}
    each = dqn.pop("updates_each", "step")
    names = {new: old for old, new in (HYPERPARAMETERS | LEARNING).items()}
    if "updates_per_step" in dqn and each != "round":
        problems.append('`dqn.updates_per_step`, unless `dqn.updates_each` is "round"')
    problems += [f"`dqn.{option}` = {dqn[option]!r} without `learner`" for option in dqn if option not in names]
    return {names[option]: value for option, value in dqn.items() if option in names}


def _current_keys(config: RunConfig, given: Mapping[str, Any], taken: list[tuple[str, str]]) -> dict[str, Any]:
    """What the old sections lack; it is written beside them by its current name."""
    if any(who.who == "archive" for phase in config.phases for who in phase.opponents or config.opponents):
        taken = [*taken, *(("league", share) for share in SHARES)]
    if config.learner == "dqn":
        taken = [*taken, ("world_options", "action_fineness")]
    rest = {name: value for name, value in given.items() if name not in REPLACED_KEYS}
    for section in {section for section, _ in taken} & rest.keys():
        rest[section] = {key: value for key, value in rest[section].items() if (section, key) not in taken}
    if rest["world"] == registry.curriculum_world():
        del rest["world"]
    return {name: value for name, value in rest.items() if value != {}}
