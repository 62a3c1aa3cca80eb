"""What hints add to the reward of one env: when its guide is asked, which hint holds, and how much it still counts."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.worlds.gameboy.guide.client import Answers, GuideClient, client_for
from rookery.worlds.gameboy.guide.hint import Hint, check_hint
from rookery.worlds.gameboy.guide.replay import Recorded, recorded_hints
from rookery.worlds.gameboy.guide.settings import GuideSettings
from rookery.worlds.gameboy.memory_reader import Values
from rookery.worlds.gameboy.schema import Profile

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
        """Whether the guide is asked after the next step: it needs the screen then. Envs ask in turns."""
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
