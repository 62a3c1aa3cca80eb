"""Values that Stable-Baselines3 and CleanRL write in another form than rookery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.errors import ConfigError


def is_number(value: Any) -> bool:
    """An integer or a float; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_linear(value: Any) -> bool:
    """RL Zoo's text for a value that falls linearly to zero, such as "lin_3e-4"."""
    return isinstance(value, str) and value.startswith("lin_")


def converted(learner: str, name: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """The options, with values, that one of their options means. `place` is its name in messages."""
    if is_linear(value):
        return {option: _number(value.removeprefix("lin_"), place), f"{option}_schedule": "linear"}
    convert = CONVERSIONS.get(name)
    return {option: value} if convert is None else convert(learner, option, value, place)


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
    return _temperature(learner, option, value, place) if learner == "sac" else {option: value}


def _target_entropy(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    return {option: None if value == "auto" else value}


def _layers(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """SB3's `net_arch`: widths, or those of the actor and of the critic, which are the same here."""
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Mapping):
        value = value[0]
    if isinstance(value, Mapping):
        widths = [list(part) if isinstance(part, (list, tuple)) else part for part in value.values()]
        if not widths or any(part != widths[0] for part in widths):
            raise ConfigError(f"`{place}`: actor and critic have the same layers here: use `{learner}.hidden`, a list")
        value = widths[0]
    return {option: value}


def _activation(learner: str, option: str, value: Any, place: str) -> dict[str, Any]:
    """A class of torch.nn, or its name."""
    name = value.__name__ if isinstance(value, type) else value
    return {option: name.rpartition(".")[2].lower() if isinstance(name, str) else name}


Conversion = Callable[[str, str, Any, str], dict[str, Any]]
CONVERSIONS: dict[str, Conversion] = {
    "anneal_lr": _schedule,
    "ent_coef": _entropy_coefficient,
    "target_entropy": _target_entropy,
    "net_arch": _layers,
    "activation_fn": _activation,
}
