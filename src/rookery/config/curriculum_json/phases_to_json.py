"""Writes current phases as an old file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config.curriculum_json.names import MODES, SCRIPTS, TERMS
from rookery.config.curriculum_schema import LeagueOptions, Opponent, Phase, Shaping
from rookery.config.key_paths import path_heading
from rookery.config.schema import RunConfig

OLD_MODES = {"normal": "NORMAL", "shooting": "TRAIN_SHOOTING", "defense": "TRAIN_DEFENSE"}
OLD_SCRIPTS = {new: old for old, new in SCRIPTS.items()}
SHARES = ("pfsp", "random", "baseline")
INFOS = {info: term for term, (info, _, _) in TERMS.items()}


class PhaseWriter:
    """Writes one phase after the other, and collects what the old format cannot express."""

    def __init__(self, config: RunConfig, problems: list[str]) -> None:
        self.config, self.problems = config, problems
        self._names = {"phases": [{"name": phase.name} for phase in config.phases]}
        self._limits: list[tuple[str, int | None]] = []  # each mode that is played, and its time limit if one is given

    def write(self, number: int, phase: Phase) -> dict[str, Any]:
        place = path_heading(("phases", number), self._names)
        for name in ("steps", "until", "learner"):
            if getattr(phase, name):
                self.problems.append(f"{place}: `{name}`")
        if phase.episodes is None:
            self.problems.append(f"{place}: a phase without `episodes`")
        written: dict[str, Any] = {} if phase.name is None else {"name": phase.name}
        written |= {"episodes": phase.episodes, "environment": self._environment(phase, place)}
        opponents = phase.opponents or self.config.opponents
        if opponents:
            written["opponent"] = self._opponent(opponents)
        written["reward_shaping"] = self._shaping(phase.shaping, place) if phase.shaping else None
        return written if phase.clear_replay else {**written, "clear_buffer": False}

    def time_limit(self) -> dict[str, int]:
        """The one limit from which the limit of every mode follows, if there is one."""
        given = {limit for _, limit in self._limits if limit is not None}
        if not given:
            return {}
        longest = max(given)
        if any((MODES[mode] if own is None else own) != min(longest, MODES[mode]) for mode, own in self._limits):
            self.problems.append("a `time_limit` that is not the same for all modes, where theirs is not shorter")
        return {"max_episode_steps": longest}

    # --- the world ------------------------------------------------------------------------------------------------

    def _environment(self, phase: Phase, place: str) -> dict[str, Any]:
        shared = {**self.config.world_options, **phase.options}
        keeps = {"keep_mode": bool(shared.pop("keep_mode"))} if "keep_mode" in shared else {}
        if not phase.mixture:
            return {"mode": self._mode(shared, place), **keeps}
        mixture = [
            {"mode": self._mode({**shared, **variant.options}, f"{place}.mixture[{number}]"), "weight": variant.weight}
            for number, variant in enumerate(phase.mixture)
        ]
        return {"mixture": mixture, **keeps}

    def _mode(self, options: Mapping[str, Any], place: str) -> str:
        rest = {key: value for key, value in options.items() if key not in ("mode", "time_limit", "action_fineness")}
        beside = self.config.world_options
        self.problems += [f"{place}: the world's option `{key}`" for key in rest if key not in beside]
        mode = str(options.get("mode", "normal")).lower().removeprefix("train_")
        if mode not in MODES:
            self.problems.append(f"{place}: the mode {options['mode']!r}")
            return ""
        self._limits.append((mode, options.get("time_limit")))
        return OLD_MODES[mode]

    # --- opponents ------------------------------------------------------------------------------------------------

    def _opponent(self, opponents: list[Opponent]) -> dict[str, Any]:
        if len(opponents) == 1:
            return self._one(opponents[0])
        return {
            "type": "weighted_mixture",
            "opponents": [{**self._one(opponent), "weight": opponent.weight} for opponent in opponents],
        }

    def _one(self, opponent: Opponent) -> dict[str, Any]:
        who = opponent.who
        if who in OLD_SCRIPTS:
            return {"type": OLD_SCRIPTS[who]}
        sampled = {} if opponent.deterministic else {"deterministic": False}
        if who == "archive":
            shares = {name: getattr(self.config.league, name) for name in SHARES}
            usual = {name: LeagueOptions.model_fields[name].default for name in SHARES}
            return {"type": "archive", **({} if shares == usual else {"distribution": shares}), **sampled}
        return {"type": "self_play", "checkpoint": None if who == "self" else who, **sampled}

    # --- shaped rewards -------------------------------------------------------------------------------------------

    def _shaping(self, shaping: Mapping[str, Shaping], place: str) -> dict[str, Any]:
        """N and K are the same for all terms; a constant term fits any."""
        for info in shaping.keys() - INFOS.keys():
            self.problems.append(f"{place}: `shaping` by {info}")
        terms = {name: shaping.get(info, Shaping()) for info, name in INFOS.items()}
        spans = {(term.hold, term.fall) for term in shaping.values()}
        if len(spans) > 1:
            spans = {(term.hold, term.fall) for term in shaping.values() if term.final not in (None, term.start)}
        if len(spans) > 1:
            self.problems.append(f"{place}: `hold` and `fall` that differ between the terms of `shaping`")
        hold, fall = max(spans, default=(0, 0))
        written: dict[str, Any] = {"N": hold, "K": fall}
        for name, term in terms.items():
            if name != "direction" or term.start != 0:
                written[f"{name.upper()}_START"] = term.start
            written[f"{name.upper()}_FINAL"] = term.start if term.final is None else term.final
        return written
