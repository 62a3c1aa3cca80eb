"""From the option names of other libraries to rookery's own (see `foreign_options`), and values that they write in
another form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.config.code_values import factor_schedule, rate_schedule, recorded
from rookery.errors import ConfigError
from rookery.foreign_options import ANSWERS, COMBINED, OPTIONS, RUN_KEYS, SAME
from rookery.learners.registry import option_classes


class Translation:
    """Translates the parts of one configuration."""

    def __init__(self, *parts: Mapping[str, Any]) -> None:
        """`parts` are all parts, the last one first in importance: some names depend on another key."""
        self._parts = [part for part in parts if isinstance(part, Mapping)]
        self.notes: dict[str, str] = {}  # which name was understood as which key
        names = ("learner", *(name for name, key in RUN_KEYS.items() if key == "learner"))
        given = (self._look_up("", name) for name in names)
        learner = learner_name(next((value for value in given if value is not None), None))
        self._learners = [name for name in option_classes() if name == learner] or list(option_classes())

    def __call__(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The part with rookery's names.

        Raises:
            ConfigError: A name cannot be translated, or it says something else than another name of the option.
        """
        found: dict[str, Any] = {}
        for key, value in part.items():
            self._put(found, str(key), value)
        return found

    def _put(self, found: dict[str, Any], key: str, value: Any) -> None:
        """One key of the part, at its top level."""
        section, dot, name = key.partition(".")
        if dot and section in option_classes():
            self._put(found, section, {name: value})
        elif key in option_classes() and isinstance(value, Mapping):
            _join(found, {key: self._section(key, value)})
        elif key == "policy_kwargs" and isinstance(value, Mapping):
            for name, item in value.items():
                self._put(found, str(name), item)
        elif key == "wrappers":
            found[key] = recorded(key, value)
        elif key == "phases" and isinstance(value, (list, tuple)):
            found[key] = [self._phase(phase) for phase in value]
        elif key in RUN_KEYS or key == "learner":
            option = RUN_KEYS.get(key, key)
            if option != key:
                self.notes[key] = f"`{option}`"
            _join(found, {option: learner_name(value) if option == "learner" else value})
        elif key in ANSWERS:
            raise ConfigError(f"`{key}`: {ANSWERS[key]}")
        elif self._is_option(key, value):
            _join(found, self._spread(key, value))
        else:
            _join(found, {key: value})

    def _is_option(self, name: str, value: Any) -> bool:
        if name == "learning_rate":
            return is_linear(value) or callable(value)
        return name in SAME or name in COMBINED or any(name in names for names in OPTIONS.values())

    def _spread(self, name: str, value: Any) -> dict[str, Any]:
        """An option without a section: for each learner that has it."""
        found = {}
        for learner in self._learners:
            options = self._section(learner, {name: value}, f"{name}")
            known = option_classes()[learner].model_fields
            if options and all(option in known for option in options):
                found[learner] = options
        if not found:
            raise ConfigError(f"`{name}`: {self._learners[0]} has no such option")
        self.notes[name] = _meaning(name, found)
        return found

    def _section(self, learner: str, options: Mapping[str, Any], shown: str = "") -> dict[str, Any]:
        """A learner's options by rookery's names."""
        found: dict[str, Any] = {}
        inner = options.get("policy_kwargs")
        if isinstance(inner, Mapping):
            options = {name: value for name, value in options.items() if name != "policy_kwargs"} | dict(inner)
        known, names = option_classes()[learner].model_fields, OPTIONS.get(learner, {})
        for given, value in options.items():
            name, place = str(given), shown or f"{learner}.{given}"
            if name in COMBINED and name not in known:
                changes = self._combined(learner, name, value, place)
            elif name in ANSWERS and name not in known:
                raise ConfigError(f"`{place}`: {ANSWERS[name]}")
            elif name not in known and name not in names:
                changes = {name: value} if not shown else {}
            else:
                option = name if name in known else names[name]
                changes = converted(learner, name, option, value, place)
            if name not in known and changes and not shown and list(changes) != [name]:
                self.notes[place] = _meaning(name, {learner: changes})
            _join(found, changes, f"{learner}.")
        return found

    def _phase(self, phase: Any) -> Any:
        """A phase, whose options of the learner are translated where all learners agree on what they mean."""
        options = phase.get("learner") if isinstance(phase, Mapping) else None
        if not isinstance(options, Mapping):
            return phase
        found: dict[str, Any] = {}
        for name, value in options.items():
            meanings = [self._section(learner, {name: value}, str(name)) for learner in self._learners]
            known = [meaning for meaning in meanings if meaning]
            agreed = known and all(meaning == known[0] for meaning in known)
            _join(found, known[0] if agreed else {name: value})
        return {**phase, "learner": found}

    # --- names that depend on another key -------------------------------------------------------------------------

    def _combined(self, learner: str, name: str, value: Any, place: str) -> dict[str, Any]:
        known = option_classes()[learner].model_fields
        if name == "exploration_fraction" and "epsilon_fraction" in known:
            return {"epsilon_fraction": value}
        if name == "exploration_fraction":
            return self._epsilon_steps(value, place) if "epsilon_steps" in known else {}
        return self._updates(learner, place) if "updates_per_step" in known else {}

    def _epsilon_steps(self, share: Any, place: str) -> dict[str, Any]:
        names = ("steps", "total_timesteps", "total_steps", "n_timesteps")
        steps = next((found for name in names if (found := self._look_up("", name)) is not None), None)
        if not is_number(steps) or not is_number(share) or not 0 < share <= 1:
            raise ConfigError(
                f"`{place}` = {share!r}: should be a number > 0 and <= 1, and needs `steps`, of which it is a share; "
                "or use `dqn.epsilon_steps`"
            )
        return {"epsilon_steps": max(1, round(share * steps))}

    def _updates(self, learner: str, place: str) -> dict[str, Any]:
        """`train_freq` rounds of steps of all envs, then `gradient_steps` updates; -1: as many as there were steps."""
        usual = 4 if learner == "dqn" else 1
        every = self._first(learner, ("train_freq", "train_frequency"), usual)
        updates = self._first(learner, ("gradient_steps",), 1)
        if not is_number(every) or every < 1 or not is_number(updates) or (updates < 1 and updates != -1):
            raise ConfigError(
                f"`{place}`: `train_freq` should be a number of steps >= 1 and `gradient_steps` one of updates >= 1 or "
                f"-1, got {every!r} and {updates!r}; or use `{learner}.updates_per_step`"
            )
        if updates == -1:
            return {"updates_per_step": 1.0, "updates_each": "step"}
        return {"updates_per_step": updates / every, "updates_each": "round"}

    def _first(self, learner: str, names: tuple[str, ...], default: Any) -> Any:
        places = ((learner, name) for name in names)
        given = (self._look_up(*place) for place in (*places, *(("", name) for name in names)))
        return next((value for value in given if value is not None), default)

    def _look_up(self, section: str, name: str) -> Any:
        """A value in the most important part that has it."""
        for part in reversed(self._parts):
            inner = part.get(section) if section else part
            dotted = part.get(f"{section}.{name}")
            value = inner.get(name) if isinstance(inner, Mapping) else None
            if value is not None or dotted is not None:
                return dotted if value is None else value
        return None


def _meaning(name: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """What a name was understood as, with the values where these are in another form."""
    shown = name in COMBINED or name in CONVERSIONS
    texts = [
        (learner, f"{option}` = {value!r}" if shown else f"{option}`")
        for learner, options in found.items()
        for option, value in options.items()
    ]
    if len({text for _, text in texts}) == 1 and len(texts) > 1:
        return f"the learner's `{texts[0][1]}"
    return " and ".join(f"`{learner}.{text}" for learner, text in texts)


def _join(found: dict[str, Any], changes: Mapping[str, Any], shown: str = "") -> None:
    """Add changes to a nested dict; two names of one option must agree."""
    for key, value in changes.items():
        there = found.get(key)
        if isinstance(value, Mapping) and isinstance(there, dict) and key in option_classes():
            _join(there, value, f"{key}.")
        elif key in found and there != value:
            raise ConfigError(f"two names of `{shown}{key}` differ: {value!r} and {there!r}; give one of them")
        else:
            found[key] = value


def learner_name(value: Any) -> Any:
    """A learner's name from its class, or in other letters: "PPO"."""
    name = value.__name__ if isinstance(value, type) else value
    return name.lower() if isinstance(name, str) and name.lower() in (*option_classes(), "auto") else value


def is_number(value: Any) -> bool:
    """An integer or a float; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_linear(value: Any) -> bool:
    """RL Zoo's text for a value that falls linearly to zero, such as "lin_3e-4"."""
    return isinstance(value, str) and value.startswith("lin_")


def converted(learner: str, name: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """The options, with values, that one of their options means. `place` is its name in messages."""
    schedule = f"{option}_schedule"
    if is_linear(value):
        return {option: _number(value.removeprefix("lin_"), place), schedule: "linear"}
    if name in CONVERSIONS:
        return CONVERSIONS[name](learner, option, value, place)
    if callable(value) and schedule in option_classes()[learner].model_fields:
        first, text = rate_schedule(place, value)
        return {option: first, schedule: text}
    if callable(value) and option.endswith("_schedule"):
        return {option: factor_schedule(place, value)}
    return {option: recorded(place, value, session=option == "network")}


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"`{place}`: {text!r} should be a number") from None


def _schedule(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise ConfigError(f"`{place}` should be true or false, got {value!r}; or use `{learner}.{option}`")
    return {option: "linear" if value else "constant"}


def _temperature(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """SB3's "auto_0.1" is a learned temperature that begins at 0.1."""
    if isinstance(value, str) and value.startswith("auto_"):
        return {option: "auto", "temperature_start": _number(value.removeprefix("auto_"), place)}
    return {option: value}


def _entropy_coefficient(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    return _temperature(learner, option, value, place) if learner in ("sac", "xqc") else {option: value}


def _target_entropy(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    return {option: None if value == "auto" else value}


def _layers(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """SB3's `net_arch`: widths, or those of the actor and of the critic."""
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Mapping):
        value = value[0]
    if isinstance(value, (list, tuple)) and any(isinstance(part, Mapping) for part in value):
        raise ConfigError(f"`{place}`: actor and critic share no layers here: use dict(pi=[64, 64], vf=[64, 64])")
    if not isinstance(value, Mapping):
        return {option: value}
    if "critic_hidden" not in option_classes()[learner].model_fields:
        raise ConfigError(f"`{place}`: {learner} has no actor and critic: use `{learner}.hidden`, a list")
    if unknown := [name for name in value if name not in ("pi", "vf", "qf")]:
        raise ConfigError(
            f"`{place}`: has the keys pi and {'vf' if learner == 'ppo' else 'qf'}, got {unknown[0]!r:.40}"
        )
    critic: Any = next((value[name] for name in ("vf", "qf") if name in value), [])
    actor, critic = ([*part] if isinstance(part, tuple) else part for part in (value.get("pi", []), critic))
    return {option: actor} if actor == critic else {option: actor, "critic_hidden": critic}


def _activation(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """A class or function of torch, or its name."""
    name = getattr(value, "__name__", value)
    return {option: name.rpartition(".")[2].lower() if isinstance(name, str) else name}


Conversion = Callable[[str, str, Any, str], dict[str, Any]]
CONVERSIONS: dict[str, Conversion] = {
    "anneal_lr": _schedule,
    "ent_coef": _entropy_coefficient,
    "target_entropy": _target_entropy,
    "net_arch": _layers,
    "activation_fn": _activation,
    "activation": _activation,
}
