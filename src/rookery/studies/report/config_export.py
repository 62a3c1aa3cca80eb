"""The settings of a trial as a complete configuration, with comments, that `rookery train` takes as it is."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rookery.config import resolve
from rookery.config.fields import fields
from rookery.config.inputs import to_toml
from rookery.config.layers import merge, nested
from rookery.config.translation import Translation
from rookery.console import printable
from rookery.errors import ConfigError, OptionError, StudyError
from rookery.files import read_plain, replace_file
from rookery.learners.registry import option_classes
from rookery.monitor.formatting import number, plural
from rookery.studies.storage.study_view import StudyView, TrialView

LARGEST = 16 << 20  # bytes of a run's config.json
OF_THE_SEARCH = ("search", "name", "runs_dir")  # what a run of its own does not take from a study
SECTION, KEY = re.compile(r"^\[([\w.]+)\]$"), re.compile(r"^(\w+) = ")
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
NO_EQUAL = "has no equivalent here, and is omitted"


@dataclass(frozen=True)
class ExportedConfig:
    """The text of a configuration file, and what to know about it."""

    trial: int
    text: str
    notes: tuple[str, ...] = ()


def exported_config(
    study: StudyView, number: int | None = None, *, world: str | None = None, learner: str | None = None
) -> ExportedConfig:
    """The configuration of a trial: of this number, or of the best one, verified if there are verified ones.

    Args:
        world: The world, for a study that was not made by rookery.
        learner: The learner, for such a study.

    Raises:
        StudyError: There is no such trial, or it is not known what it trained.
    """
    trial = _trial(study, number)
    notes: list[str] = []
    if study.config is not None:
        if world is not None or learner is not None:
            raise OptionError("--world and --learner are for studies of others: this one has its own")
        values = _own_values(study, trial)
    else:
        values, notes = _other_values(study, trial, world, learner)
    resolve(values)  # refuses what `rookery train` would refuse
    text = f"{_header(study, trial, notes)}\n{_commented(to_toml(values), trial.settings)}"
    return ExportedConfig(trial.number, text, tuple(notes))


def write_config(exported: ExportedConfig, path: Path, *, overwrite: bool = False) -> Path:
    """Write the file. An existing one is replaced only if `overwrite`."""
    if path.suffix.lower() != ".toml":
        raise OptionError(f"{path}: the file name should end in .toml")
    if os.path.lexists(path) and not overwrite:
        raise OptionError(f"{path} exists already; --force overwrites it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, [exported.text.encode()])
    except OSError as error:
        raise OptionError(f"{path} cannot be written ({error.strerror or error})") from None
    return path


def _trial(study: StudyView, number: int | None) -> TrialView:
    found = study.chosen if number is None else study.trial(number)
    if found is None and number is None:
        raise StudyError(f"no trial of {study.name} has finished yet; --trial N exports one that has not")
    if found is None:
        raise StudyError(f"{study.name} has no trial {number}: it has {len(study.trials):,} trials, counted from 0")
    return found


def _own_values(study: StudyView, trial: TrialView) -> dict[str, Any]:
    """The configuration of the study with the settings of the trial, and the options of one learner only."""
    base = {key: value for key, value in (study.config or {}).items() if key not in OF_THE_SEARCH}
    layers = [nested(key, value) for key, value in trial.settings.items()]
    learner = trial.settings.get("learner", base.get("learner"))
    others = [name for name in option_classes() if name != learner or learner != base.get("learner")]
    base = {key: value for key, value in base.items() if key not in others}
    used = _run_options(study, trial, learner)
    return merge(base, {} if used is None else {learner: used}, *layers)


def _run_options(study: StudyView, trial: TrialView, learner: Any) -> dict[str, Any] | None:
    """The options that the learner of a run of the trial had, with those that a recipe gave; None without a run."""
    for part in trial.parts.values():
        path = (study.folder or Path()) / str(part.get("run")) / "config.json"
        try:
            options = json.loads(read_plain(path, LARGEST)).get(learner)
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(options, dict):
            return options
    return None


def _other_values(
    study: StudyView, trial: TrialView, world: str | None, learner: str | None
) -> tuple[dict[str, Any], list[str]]:
    known = origin(study.attributes)
    world, learner = world or known.get("world"), learner or known.get("learner") or guessed_learner(trial.params)
    if world is None:
        raise StudyError(f"{study.name} does not say what was trained: give --world, such as --world CartPole-v1")
    if learner not in option_classes():
        has = f"rookery has no learner {learner!r}" if learner else f"{study.name} does not say which learner it is of"
        raise StudyError(f"{has}: give --learner {', '.join(option_classes())}")
    values, notes = translated(trial.params, learner, known.get("steps"))
    run = {key: value for key, value in known.items() if key in ("steps", "num_envs")}
    return merge({"world": world, "learner": learner, **run}, values), notes


def _header(study: StudyView, trial: TrialView, notes: list[str]) -> str:
    verified = study.verified.get(trial.number)
    lines = [f"Trial {trial.number} of the study {printable(study.name)}."]
    if trial.value is not None:
        lines.append(f"Value when it was tuned: {number(trial.value)}{_interval(trial.interval)}")
    if verified is not None:
        seeds = plural(len(verified.values), "held-out seed")
        lines.append(f"Value with {seeds}: {number(verified.iqm)}{_interval(verified.interval)}")
    lines += [printable(note) for note in notes]
    return "".join(f"# {line}\n" for line in lines)


def _interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f", 95 % interval {number(interval[0])} to {number(interval[1])}"


def _commented(text: str, searched: Mapping[str, Any]) -> str:
    """The TOML with the description of each key above it, and a mark at those that the search has chosen."""
    known, section, lines = fields(), "", []
    for line in text.splitlines():
        found = SECTION.match(line)
        section = f"{found[1]}." if found else section
        key = f"{section}{match[1]}" if (match := KEY.match(line)) else ""
        if key in known and known[key].description:
            mark = "Searched. " if key in searched else ""
            lines.append(f"# {mark}{known[key].description}")
        lines.append(line)
    return "\n".join(lines) + "\n"


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
    """The parameters as a configuration, and a note for each that has no equivalent.

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
