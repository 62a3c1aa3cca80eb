"""What hints add to the reward of one env: when its guide is queried, which hint is valid, and how much it still
counts.

A hint is a target to reach, and bonuses on terms of the profile's reward. Guides may answer anything, so it is checked.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.worlds.gameboy import conditions
from rookery.worlds.gameboy.conditions import Condition
from rookery.worlds.gameboy.guide_client import Answers, GuideClient, client_for
from rookery.worlds.gameboy.guide_settings import GuideSettings, Recorded, recorded_hints
from rookery.worlds.gameboy.observe import Values
from rookery.worlds.gameboy.profile_schema import Profile

NOTHING: Mapping[str, Any] = {"hint": None, "seed": 0, "steps": 0, "reached": False}


class Guidance:
    """The guide of one env. A hint holds from when it comes until the next one, also in later episodes."""

    def __init__(self, settings: GuideSettings, profile: Profile, index: Mapping[str, int]) -> None:
        self.settings, self._index = settings, index
        self._names, self._terms = list(profile.memory), [term.name for term in profile.reward]
        game = profile.game
        about = {"title": game.title, "description": game.description, "values": self._names, "terms": self._terms}
        self._replay: Recorded | None = recorded_hints(settings.guide) if settings.is_replay else None
        self._client: GuideClient | None = None if settings.is_replay else client_for(settings, about)
        self._answers: Answers = deque()
        self._records: list[dict[str, Any]] = []
        self.seed = self.steps = 0
        self._reached = False
        self._follow(None)

    # --- episodes and steps -------------------------------------------------------------------------------------

    def begin(self, seed: int | None, values: Values) -> None:
        """An episode begins. Envs of a run differ in the seed of their first one, by which hints are recorded."""
        if seed is not None and not self.steps:
            self.seed = seed
        self._reached = self._target is not None and self._target(values)

    @property
    def asks_next(self) -> bool:
        """Whether the guide is queried after the next step: it needs the screen then. Envs ask in turns."""
        return self._client is not None and (self.steps + 1 + self.seed) % self.settings.guide_every == 0

    def give(self, now: Values, gains: Sequence[float], screen: Callable[[], np.ndarray]) -> float:
        """What is added to the reward of a step that led to these values, in which the profile's terms gave `gains`."""
        asks = self.asks_next
        self.steps += 1
        total = 0.0
        if self._target is not None and not self._reached and self._target(now):
            self._reached = True
            total += self._bonus
        for k, factor in self._factors:
            total += factor * gains[k]
        self._take_hints(now)
        if asks and self._client is not None:
            self._client.ask(self._answers, self.steps, dict(zip(self._names, now, strict=False)), screen())
        return self.weight * total

    @property
    def weight(self) -> float:
        """How much hints count now: less and less, until `guide_fade` steps were made."""
        settings = self.settings
        if settings.guide_fade is None:
            return settings.guide_weight
        return settings.guide_weight * max(0.0, 1.0 - self.steps / settings.guide_fade)

    def close(self) -> None:
        """End the guide's process, if no other env needs it."""
        if self._client is not None:
            self._client.release()
            self._client = None

    # --- hints --------------------------------------------------------------------------------------------------

    def _take_hints(self, now: Values) -> None:
        """Hints count from the next step on."""
        if self._replay is not None:
            place = self.seed, self.steps
            if place in self._replay:
                self._receive({"hint": self._replay[place]}, self.steps, now)
        while self._answers:
            asked, answer = self._answers.popleft()
            self._receive(answer, asked, now)

    def _receive(self, answer: Mapping[str, Any], asked: int, now: Values) -> None:
        record: dict[str, Any] = {"seed": self.seed, "env_step": self.steps, "asked_at": asked}
        if "error" in answer:
            record["error"] = str(answer["error"])[:300]
        else:
            try:
                given = answer.get("hint")
                hint = None if given is None else check_hint(given, self._terms, self._names)
            except (ValueError, RecursionError) as error:
                record["refused"] = str(error)[:300]
            else:
                self._follow(hint)
                self._reached = self._target is not None and self._target(now)
                record |= {"hint": None if hint is None else dict(hint.content), "weight": self.weight}
        self._records.append(record)

    def _follow(self, hint: Hint | None) -> None:
        self._hint = hint
        self._target = None if hint is None or hint.target is None else hint.target.test(self._index)
        self._bonus = 0.0 if hint is None else hint.bonus
        factors = {} if hint is None else hint.terms
        self._factors = [(self._terms.index(name), factor) for name, factor in factors.items()]

    def take_records(self) -> str | None:
        """What came since the last call, as JSON; None if nothing did."""
        if not self._records:
            return None
        records, self._records = self._records, []
        return json.dumps(records)

    # --- state --------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What decides the rewards from here on. Questions that are open are forgotten."""
        hint = None if self._hint is None else json.dumps(dict(self._hint.content))
        return {"hint": hint, "seed": self.seed, "steps": self.steps, "reached": self._reached}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `get_state()`."""
        known = {**NOTHING, **state}
        hint = known["hint"]
        self._follow(None if hint is None else check_hint(json.loads(hint), self._terms, self._names))
        self.seed, self.steps, self._reached = int(known["seed"]), int(known["steps"]), bool(known["reached"])
        self._answers, self._records = deque(), []  # an answer on its way is to a question of before


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
        raise ValueError(f"`target` names {unknown[0]!r}, which is not a value of the profile")
    return target


def _factors(given: Any, terms: Collection[str]) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"`terms` should be a dict of numbers, got {given!r:.60}")
    for name in given:
        if name not in terms:
            raise ValueError(f"`terms` names {name!r:.60}, which is not a reward of the profile")
    return {str(name): _number(f"terms.{name}", value) for name, value in given.items()}


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"`{name:.80}` should be a finite number, got {value!r:.60}")
    return max(-LARGEST_BONUS, min(LARGEST_BONUS, float(value)))
