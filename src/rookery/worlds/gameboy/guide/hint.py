"""A hint: a target to reach, and bonuses on terms of the profile's reward. Guides may answer anything, so it is
checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.worlds.gameboy import conditions
from rookery.worlds.gameboy.conditions import Condition

LARGEST_BONUS = 10.0
LONGEST_TEXT = 500  # characters of a target, a name or a remark


@dataclass(frozen=True)
class Hint:
    """What a guide has said, checked."""

    target: Condition | None  # when it first becomes true in an episode, `bonus` is given
    bonus: float
    terms: Mapping[str, float]  # how many times more what each of these terms gives is worth
    content: Mapping[str, Any]  # the same as plain values, for the run's record


def check_hint(answer: Any, terms: Collection[str], names: Collection[str]) -> Hint:
    """A guide's answer as a hint; ValueError if it is none. `terms` are the profile's rewards, `names` its values.

    >>> check_hint({"target": "room == 2", "bonus": 0.5}, ["key"], ["room"]).content
    {'target': 'room == 2', 'bonus': 0.5}
    """
    if not isinstance(answer, Mapping):
        raise ValueError(f"a hint should be a dict or None, got {type(answer).__name__}")
    content: dict[str, Any] = {}
    target = _target(answer.get("target"), names)
    if target is not None:
        content["target"] = answer["target"]
        content["bonus"] = _number("bonus", answer.get("bonus", 1.0))
    factors = _factors(answer.get("terms"), terms)
    if factors:
        content["terms"] = factors
    if not content:
        raise ValueError("a hint should have a `target` or `terms`")
    if isinstance(answer.get("text"), str):
        content["text"] = answer["text"][:LONGEST_TEXT]
    return Hint(target, content.get("bonus", 0.0), factors, content)


def _target(text: Any, names: Collection[str]) -> Condition | None:
    if text is None or text == "":
        return None
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise ValueError(f"`target` should be a short text such as 'room == 2', got {text!r:.60}")
    target = conditions.parse(text)
    unknown = [name for name in target.names if name not in names]
    if unknown:
        raise ValueError(f"`target` names {unknown[0]!r}, which is no value of the profile")
    return target


def _factors(given: Any, terms: Collection[str]) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"`terms` should be a dict of numbers, got {given!r:.60}")
    for name in given:
        if name not in terms:
            raise ValueError(f"`terms` names {name!r:.60}, which is no reward of the profile")
    return {str(name): _number(f"terms.{name}", value) for name, value in given.items()}


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"`{name:.80}` should be a finite number, got {value!r:.60}")
    return max(-LARGEST_BONUS, min(LARGEST_BONUS, float(value)))
