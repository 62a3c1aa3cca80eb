"""Layers of a configuration: merging them, parsing `--set`, the key names of older trainers, and limits of its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from rookery.errors import ConfigError
from rookery.files import load_toml
from rookery.learners.registry import specs

OLD_NAMES = {
    "n_envs": "num_envs",
    "parallel_start_method": "start_method",
    "total_timesteps": "steps",
    "total_steps": "steps",
    "num_episodes": "episodes",
    "gpu": "device",
    "base_output_dir": "runs_dir",
    "checkpoint_dir": "checkpoints.dir",
    "checkpoint_path": "init_from",
    "eval_every": "evaluation.every",
    "eval_freq_steps": "evaluation.every",
    "eval_episodes": "evaluation.episodes",
    "eval_num_games": "evaluation.episodes",
    "eval_opponents": "evaluation.opponents",
    "eval_weak_opponent": "evaluation.opponents",
    "run_name": "name",
    "verbose": "monitor.verbose",
    "on": "cluster.kind",
    "twin": "compiled",
}
OLD_NAMES_WITHIN = {"search": {"workers": "jobs"}}  # of keys of a section
PYTHONIC = {"True": "true", "False": "false"}
MISSING = object()


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """One nested dict, in which later layers override earlier ones key by key. `learning_rate` is moved to the
    sections of the learners, so that the later one counts, whether it was given by its short or its long name."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _update(merged, _spread_learning_rate(layer))
    return merged


def parse_override(text: str) -> dict[str, Any]:
    """A nested dict from "a.b=c".

    >>> parse_override("ppo.hidden=[64, 64]"), parse_override("world=CartPole-v1")
    ({'ppo': {'hidden': [64, 64]}}, {'world': 'CartPole-v1'})
    """
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"--set {text[:200]}: should be KEY=VALUE, such as ppo.clip=0.1")
    found = parse_value(value)
    check_size({key: found}, "--set")
    return nested(key, found)


def parse_value(text: str) -> Any:
    """A value in TOML syntax; anything else is a string.

    >>> [parse_value(text) for text in ("8", "1_000", ".5", "true", "[64, 64]", "auto", '"8"')]
    [8, 1000, 0.5, True, [64, 64], 'auto', '8']
    """
    text = text.strip()
    try:
        (value,) = load_toml(f"x = {PYTHONIC.get(text, text)}").values()
    except ValueError:
        return _loose_number(text)
    return value if isinstance(value, (bool, int, float, str, list, dict)) else text  # dates stay strings


def rename_old_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same with current names. Two names of one option may both be given if their values agree.

    >>> rename_old_keys({"n_envs": None, "gpu": 0, "eval_num_games": 5})
    {'num_envs': 'auto', 'device': 'cuda:0', 'evaluation': {'episodes': 5}}
    """
    renamed: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for old in sorted(given, key=_order):
        name, value = str(old), given[old]
        key = OLD_NAMES.get(name, name)
        if key == "num_envs" and value is None:
            value = "auto"
        elif name == "device":
            value = _device(value)
        elif key == "start_method" and value in ("default", "auto"):
            value = None
        if name in OLD_NAMES_WITHIN and isinstance(value, Mapping):
            value = _with_new_names(name, value)
        if name not in OLD_NAMES:
            _update(renamed, nested(key, deepcopy(value)))
            continue
        if value is None:
            continue
        value = CONVERSIONS.get(name, deepcopy)(value)
        other = look_up(renamed, key)
        if name == "eval_weak_opponent" and isinstance(other, list):
            value = [*other, *(who for who in value if who not in other)]
        elif other is not MISSING and other != value:
            raise ConfigError(two_names_message(name, given[old], origin.get(key, key), other))
        _update(renamed, nested(key, value))
        origin[key] = name
    return renamed


def _with_new_names(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a section by their current names.

    >>> _with_new_names("search", {"workers": 2, "n_trials": 9})
    {'jobs': 2, 'n_trials': 9}
    """
    names = OLD_NAMES_WITHIN[section]
    for old in names.keys() & values.keys():
        new = names[old]
        if values.get(new, values[old]) != values[old]:
            raise ConfigError(two_names_message(f"{section}.{old}", values[old], f"{section}.{new}", values[new]))
    return {names.get(key, key): value for key, value in values.items()}


def _order(name: Any) -> int:
    """Current names first, to compare the others with; last the name whose value is added to another."""
    return (str(name) in OLD_NAMES) + (name == "eval_weak_opponent")


def nested(key: str, value: Any) -> dict[str, Any]:
    """
    >>> nested("a.b", 1)
    {'a': {'b': 1}}
    """
    for part in reversed(key.split(".")):
        value = {part.strip(): value}
    return value


def two_names_message(one: str, value: Any, other: str, other_value: Any) -> str:
    return f"`{one}` = {value!r} and `{other}` = {other_value!r} are two names of one option; give only one of them"


def _update(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _update(below[key], value)
        else:
            below[key] = deepcopy(dict(value)) if isinstance(value, Mapping) else value


def _spread_learning_rate(layer: Mapping[str, Any]) -> dict[str, Any]:
    spread = deepcopy(dict(layer))
    rate = spread.pop("learning_rate", None)
    for learner in specs() if rate is not None else ():
        spread.setdefault(learner, {}).setdefault("learning_rate", rate)
    return spread


def look_up(given: Mapping[str, Any], key: str) -> Any:
    """
    >>> look_up({"a": {"b": 1}}, "a.b"), look_up({"a": {"b": 1}}, "a.c") is MISSING
    (1, True)
    """
    value: Any = given
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def _gpu(number: Any) -> str:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ConfigError(
            f'`gpu` should be the number of a GPU, an integer >= 0, got {number!r}; without a GPU use `device` = "cpu"'
        )
    return f"cuda:{number}"


def split_names(value: Any) -> Any:
    """
    >>> split_names("weak, strong"), split_names(["weak"])
    (['weak', 'strong'], ['weak'])
    """
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _scripted(weak: Any) -> list[str]:
    if not isinstance(weak, bool):
        raise ConfigError(f"`eval_weak_opponent` should be true or false, got {weak!r}")
    return ["weak" if weak else "strong"]


def _device(value: Any) -> Any:
    """The number of a GPU alone is enough."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    return f"cuda:{number}" if type(number) is int and number >= 0 else value


def _verbose(level: Any) -> Any:
    """Stable-Baselines3 has the levels 0, 1 and 2."""
    return bool(level) if level in (0, 1, 2) else level


# Older names whose values have another form.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "gpu": _gpu, "eval_opponents": split_names, "eval_weak_opponent": _scripted, "verbose": _verbose,
}  # fmt: skip


def _loose_number(text: str) -> Any:
    """Accept .5 and 1., which TOML refuses."""
    try:
        return float(text) if text[:1] in tuple("+-.0123456789") else text
    except ValueError:
        return text


DEEPEST = 30  # tables within tables
LONGEST_KEY = 200  # characters
LONGEST_TEXT = 20_000
MOST_VALUES = 10_000
LARGEST_NUMBER = 2**63
LARGEST_AGENT = 2 << 30  # bytes of saved weights


def check_size(content: Any, where: str = "") -> None:
    """Refuse a configuration that is too large or nested too deeply, or holds an unusable value. `where` names it
    in the message."""
    try:
        _check(content)
    except ConfigError as error:
        raise ConfigError(f"{where} {error}".lstrip()) from None


def _check(content: Any) -> None:
    left, seen = [(content, 0)], 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ConfigError(f"holds more than {MOST_VALUES:,} values, too many for a configuration")
        if depth > DEEPEST:
            raise ConfigError(f"is nested too deeply: more than {DEEPEST} levels")
        _check_value(value)
        left += [(part, depth + 1) for part in _parts(value)]


def check_key(key: Any) -> None:
    """Refuse a key that is too long or has too many dots."""
    text = str(key)
    if len(text) > LONGEST_KEY or text.count(".") > DEEPEST:
        raise ConfigError(f"holds a key of {len(text):,} characters and {text.count('.'):,} dots: {text[:40]!r}...")
    if not text.isprintable():
        raise ConfigError(f"holds a key with unprintable characters: {text!r}")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for key in value:
            check_key(key)
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _check_value(value: Any) -> None:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ConfigError(f"holds a string of {len(value):,} characters: {value[:40]!r}...")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"holds a string with a null character: {value[:40]!r}")
    if type(value) is int and abs(value) > LARGEST_NUMBER:
        raise ConfigError("holds a number > 2**63 or < -2**63")
