"""The agent of an old curriculum file, and how it learns: names, defaults, and where they stood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.config.fields import valid_values
from rookery.config.layers import MISSING, two_names_message
from rookery.config.table_reader import TableReader
from rookery.errors import ConfigError
from rookery.learners.registry import DQNOptions, option_classes

PLACE = "agent.hyperparameters"
FIXED_TEMPERATURE = 0.2  # where `learn_alpha` is false and there is no `alpha`
ONLY = {"reward_clip": None, "per_max_beta": 1.0, "max_action": 1.0}  # fields that rookery knows with one value only
NOISES = {"normal": "gaussian", "pink": "pink", "gaussian": "gaussian"}
TARGET_MODES = {"min": "min", "ave": "mean", "mean": "mean"}
PICKLES = (".pt", ".pth", ".pkl", ".zip")
REDQ_RATIO = 20  # updates per update of `training.updates_per_step`, unless a REDQ agent says otherwise

AGENTS = {"DDDQN": "dqn", "DDQN_PER": "dqn", "SAC": "sac", "TD3": "td3", "REDQTD3": "td3"}
HYPERPARAMETERS = {"learning_rate": "learning_rate", "batch_size": "batch_size"}
COMMON = HYPERPARAMETERS | {
    "hidden_dim": "hidden",
    "buffer_size": "buffer_size",
    "memory_size": "buffer_size",
    "discount": "gamma",
    "gamma": "gamma",
    "n_step": "n_step",
    "tau": "tau",
    "grad_clip": "max_grad_norm",
}
DQN = COMMON | {
    "target_update_freq": "target_every",
    "eps": "epsilon_start",
    "eps_min": "epsilon_end",
    "eps_decay": "epsilon_decay",
    "use_huber_loss": "loss",
    "use_per": "prioritised",
    "per_alpha": "priority_exponent",
    "per_beta": "importance_exponent",
    "per_beta_start": "importance_exponent",
    "per_beta_steps": "importance_steps",
    "per_beta_frames": "importance_steps",
    "per_eps": "priority_floor",
    "per_epsilon": "priority_floor",
}
SAC = COMMON | {"alpha": "temperature", "noise": "noise"}
TD3 = COMMON | {
    "latent_dim": "hidden",
    "expl_noise": "exploration_noise",
    "policy_noise": "policy_noise",
    "noise_clip": "noise_clip",
    "policy_freq": "policy_delay",
    "policy_update_delay": "policy_delay",
    "num_Q": "num_critics",
    "num_min": "min_critics",
    "q_target_mode": "target_mode",
    "priority_replay": "prioritised",
    "normalize_obs": "normalise_observations",
    "noise": "noise",
}
AGENT_FIELDS = {"dqn": DQN, "sac": SAC, "td3": TD3}
# Known as well, but not another name for an option.
ALSO_KNOWN = {
    "dqn": ("action_fineness", "per_beta_increment", "per_max_beta", "reward_clip"),
    "sac": ("learn_alpha", "max_episode_steps"),
    "td3": ("max_action", "max_episode_steps", "polyak", "utd_ratio"),
}
# Defaults of the old agents that differ from rookery's.
OLD_DEFAULTS: dict[str, dict[str, Any]] = {
    "DDDQN": {"n_step": 1, "prioritised": False},
    "DDQN_PER": {"n_step": 1},
    "SAC": {},
    "TD3": {},
    "REDQTD3": {"redq": True},
}

LEARNING = {"updates_per_step": "updates_per_step", "warmup_steps": "start_steps"}  # of `training`, for the learner


class Learning:
    """What a file says about the learner, gathered from the three places where it may stand."""

    def __init__(self, reader: TableReader, content: Mapping[str, Any]) -> None:
        self.reader = reader
        self.options: dict[str, Any] = {}
        self.world_options: dict[str, Any] = {}
        self.init_from: str | None = None
        self._ratio = 1.0  # by which REDQ multiplies `training.updates_per_step`
        self._said: dict[str, tuple[str, Any]] = {}  # where each option was found, and what stood there
        agent = reader.table(content.get("agent"), "agent", ("type", "hyperparameters", "checkpoint_path"))
        self.kind = self._kind(agent)
        self.learner = AGENTS.get(self.kind)
        for name, value in reader.table(content.get("hyperparameters"), "hyperparameters", HYPERPARAMETERS).items():
            self._take("hyperparameters", name, HYPERPARAMETERS[name], value)
        if self.learner is not None:
            self._own(agent.get("hyperparameters"))

    def _kind(self, agent: Mapping[str, Any]) -> str:
        kind = str(agent.get("type", "")).upper()
        self._start_from(agent.get("checkpoint_path"))
        if agent and "type" not in agent:
            self.reader.problems.append(f"agent: `type` is missing: {', '.join(AGENTS)}")
        elif agent and kind not in AGENTS:
            # Alone: what else such a file has need not be known.
            raise ConfigError(
                f"`agent.type` = {agent['type']!r} cannot be trained here; these can: {', '.join(AGENTS)}"
            )
        return kind

    def _start_from(self, path: Any) -> None:
        if path is None:
            return
        if not isinstance(path, str) or not path:
            self.reader.wrong("agent.checkpoint_path", "the path of a run or a checkpoint", path)
        elif path.lower().endswith(PICKLES):
            self.reader.problems.append(
                f"`agent.checkpoint_path` = {path!r}: weights of other trainers cannot be loaded; name a run "
                "of rookery or a checkpoint of one, or omit it to start from scratch"
            )
        else:
            self.init_from = path

    def train_by(self, name: str, value: Any) -> None:
        """A field of `training` that is the learner's. Old trainers counted rounds of all envs, not their steps."""
        self._take("training", name, LEARNING[name], value)
        if name == "updates_per_step":
            self.options["updates_each"] = "round"

    def sections(self) -> dict[str, Any]:
        """As today's configuration holds it. Where no agent is named, the options of every learner with replay are
        set."""
        if self.learner is not None:
            options = OLD_DEFAULTS[self.kind] | self.options
            if self._ratio != 1.0:
                options["updates_per_step"] = self._ratio * options.get("updates_per_step", 1.0)
            return {"learner": self.learner, self.learner: options}
        rest = {name: value for name, value in self.options.items() if name != "learning_rate"}
        rate = {"learning_rate": self.options["learning_rate"]} if "learning_rate" in self.options else {}
        return rate | ({"sac": rest, "dqn": dict(rest)} if rest else {})

    # --- the agent's own hyperparameters --------------------------------------------------------------------------

    def _own(self, content: Any) -> None:
        assert self.learner is not None
        names = AGENT_FIELDS[self.learner]
        given = self.reader.table(content, PLACE, (*names, *ALSO_KNOWN[self.learner]))
        if isinstance(content, Mapping) and content.get("eps_decay", 0) is None:
            given["eps_decay"] = 1.0  # null: it stays as it is
        for name, value in given.items():
            if name in names and name != "alpha":
                self._take(PLACE, name, names[name], value)
            if name in ONLY and value != ONLY[name]:
                self.reader.wrong(f"{PLACE}.{name}", "omitted, because rookery has no such option", value)
        if self.learner == "dqn":
            self._chance_and_targets(given)
        elif self.learner == "sac":
            self._temperature(given)
        else:
            self._ratio_and_tau(given)

    def _chance_and_targets(self, given: Mapping[str, Any]) -> None:
        if "target_update_freq" in given:
            self.options.setdefault("tau", 1.0)
        end = DQNOptions.model_fields["epsilon_end"].default
        if "eps_min" not in given and self.options.get("epsilon_start", 1.0) < end:
            self.options["epsilon_end"] = self.options["epsilon_start"]
        if "per_beta_increment" in given:
            self._until_full(given["per_beta_increment"])
        if "action_fineness" in given:
            fineness = given["action_fineness"]
            if type(fineness) is not int or fineness < 2:
                self.reader.wrong(f"{PLACE}.action_fineness", "an integer >= 2", fineness)
            self.world_options["action_fineness"] = fineness

    def _until_full(self, increment: Any) -> None:
        """A growth with each update, as the number of steps that it takes with one update a step."""
        if not isinstance(increment, float) or not 0 < increment <= 1:
            self.reader.wrong(f"{PLACE}.per_beta_increment", "a number > 0 and <= 1", increment)
            return
        start = self.options.get("importance_exponent", DQNOptions.model_fields["importance_exponent"].default)
        self.options.setdefault("importance_steps", max(1, math.ceil((1.0 - start) / increment)))

    def _temperature(self, given: Mapping[str, Any]) -> None:
        learned = self.reader.flag(f"{PLACE}.learn_alpha", given.get("learn_alpha", False))
        if "alpha" in given:
            self._take(PLACE, "alpha", "temperature_start" if learned is True else "temperature", given["alpha"])
        elif "learn_alpha" in given and not learned:
            self.options["temperature"] = FIXED_TEMPERATURE

    def _ratio_and_tau(self, given: Mapping[str, Any]) -> None:
        """REDQ's ratio of updates to steps, and `polyak`, which is 1 - tau."""
        default = REDQ_RATIO if self.kind == "REDQTD3" else 1
        ratio, polyak = given.get("utd_ratio", default), given.get("polyak")
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
            self.reader.wrong(f"{PLACE}.utd_ratio", "a number above 0", ratio)
            return
        self._ratio = float(ratio)
        if polyak is not None:
            known = isinstance(polyak, float) and 0 <= polyak < 1
            if not known:
                self.reader.wrong(f"{PLACE}.polyak", "a number from 0 and below 1", polyak)
            elif "tau" not in given:
                self.options["tau"] = round(1.0 - polyak, 12)

    # --- one field ------------------------------------------------------------------------------------------------

    def _take(self, section: str, name: str, option: str, value: Any) -> None:
        """Keep an option; said twice, it must be said alike."""
        place = f"{section}.{name}"
        today = self._translated(place, name, option, value)
        if today is MISSING:
            return
        before, there = self._said.get(option, ("", None))
        overrides = before == f"hyperparameters.{name}" and section == PLACE  # the agent's own value is more specific
        if before and self.options[option] != today and not overrides:
            self.reader.problems.append(two_names_message(place, value, before, there))
        self.options[option] = today
        self._said[option] = place, value

    def _translated(self, place: str, name: str, option: str, value: Any) -> Any:
        field = option_classes()[self.learner or "dqn"].model_fields[option]
        if name == "noise":
            return self.reader.one_of(place, value, NOISES)
        if name == "use_huber_loss":
            return {True: "huber", False: "squared"}.get(self.reader.flag(place, value), MISSING)
        if name == "q_target_mode":
            return self.reader.one_of(place, value, TARGET_MODES)
        if name in ("hidden_dim", "latent_dim"):
            value = [value, value] if type(value) is int else value
            return self.reader.checked(place, value, field, f"an integer >= 1, or {valid_values(field)}")
        return self.reader.checked(place, value, field)
