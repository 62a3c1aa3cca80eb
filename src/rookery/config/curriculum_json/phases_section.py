"""The phases of an old file: the world, the opponents and the shaped rewards of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config.curriculum_json.names import (
    FALL,
    HOLD,
    MODES,
    OPPONENT_FIELDS,
    OPPONENT_TYPES,
    SCRIPTS,
    TERMS,
)
from rookery.config.curriculum_json.table_reader import TableReader
from rookery.config.curriculum_schema import LeagueOptions, Phase, Shaping
from rookery.config.layers import MISSING

FIELDS = ("name", "episodes", "environment", "opponent", "reward_shaping", "clear_buffer")
SHARES = ("pfsp", "random", "baseline")
MODE_NAMES = {name: name for name in MODES} | {f"train_{name}": name for name in MODES if name != "normal"}
SHAPING_FIELDS = {
    "N": ("hold", HOLD), "K": ("fall", FALL),
    **{f"{term.upper()}_START": (f"{term}.start", start) for term, (_, start, _) in TERMS.items()},
    **{f"{term.upper()}_FINAL": (f"{term}.final", final) for term, (_, _, final) in TERMS.items()},
}  # fmt: skip


class PhasesReader:
    """Reads all phases; `league` is the distribution of their archive."""

    def __init__(self, reader: TableReader, longest: int | None) -> None:
        """`longest` is the time limit of episodes in steps; a mode's own limit counts if it is shorter."""
        self.reader, self.longest = reader, longest
        self.league: dict[str, float] = {}

    def read(self, content: Any) -> list[dict[str, Any]]:
        if not isinstance(content, list) or not content:
            self.reader.wrong("curriculum.phases", "a list of phases", content)
            return []
        return [self._phase(item, f"curriculum.phases[{number}]") for number, item in enumerate(content)]

    def _phase(self, content: Any, place: str) -> dict[str, Any]:
        name = content.get("name") if isinstance(content, Mapping) else None
        heading = f'{place} ("{name}")' if isinstance(name, str) else place
        given = self.reader.table(content, heading, FIELDS)
        if isinstance(content, Mapping) and "episodes" not in given:
            self.reader.problems.append(f"{heading}: `episodes` is missing: an integer >= 1")
        phase: dict[str, Any] = {
            key: self.reader.checked(f"{place}.{key}", given[key], Phase.model_fields[key])
            for key in ("name", "episodes")
            if key in given
        }
        phase |= self._environment(given.get("environment"), f"{place}.environment")
        if "opponent" in given:
            phase["opponents"] = [
                {**opponent, "weight": weight} if weight != 1.0 else opponent
                for opponent, weight in self._opponents(given["opponent"], f"{place}.opponent")
            ]
        if "reward_shaping" in given:
            phase["shaping"] = self._shaping(given["reward_shaping"], f"{place}.reward_shaping")
        if self.reader.flag(f"{place}.clear_buffer", given.get("clear_buffer", True)) is False:
            phase["clear_replay"] = False
        return phase

    # --- the world ------------------------------------------------------------------------------------------------

    def _environment(self, content: Any, place: str) -> dict[str, Any]:
        given = self.reader.table(content, place, ("mode", "mixture", "keep_mode"))
        keeps = self.reader.flag(f"{place}.keep_mode", given.get("keep_mode", True))
        if "mixture" not in given:
            return {"options": {**self._mode(given.get("mode", "normal"), f"{place}.mode"), "keep_mode": keeps}}
        if "mode" in given:
            self.reader.problems.append(f"{place}: give `mode` or `mixture`, not both")
        variants = self._mixture(given["mixture"], f"{place}.mixture")
        return {
            "options": {"keep_mode": keeps},
            "mixture": [{"options": options, "weight": weight} for options, weight in variants],
        }

    def _mixture(self, content: Any, place: str) -> list[tuple[Any, float]]:
        """A list of modes with weights, or a table of weights by mode."""
        if isinstance(content, Mapping):
            content = [{"mode": mode, "weight": weight} for mode, weight in content.items()]
        if not isinstance(content, list):
            self.reader.wrong(place, 'a list of tables such as {"mode": "NORMAL", "weight": 0.5}', content)
            return []
        modes = []
        for number, item in enumerate(content):
            here = f"{place}[{number}]"
            given = self.reader.table(item, here, ("mode", "weight"))
            modes.append((f"{here}.weight", self._mode(given.get("mode"), f"{here}.mode"), given.get("weight", 1.0)))
        return self.reader.weights(modes, place)

    def _mode(self, value: Any, place: str) -> Any:
        mode = self.reader.one_of(place, value, MODE_NAMES)
        if mode is MISSING:
            return {}
        if self.longest is None or self.longest >= max(MODES.values()):
            return {"mode": mode}  # which has its own limit
        return {"mode": mode, "time_limit": min(self.longest, MODES[mode])}

    # --- opponents ------------------------------------------------------------------------------------------------

    def _opponents(self, content: Any, place: str) -> list[tuple[dict[str, Any], float]]:
        """The opponents of a phase, with weights; a mixture inside a mixture divides its weight."""
        fields = ("type", "weight", "deterministic", *OPPONENT_FIELDS.values())
        given = self.reader.table(content, place, fields)
        if not given:
            return []
        kind = self.reader.one_of(f"{place}.type", given.get("type"), {name: name for name in OPPONENT_TYPES})
        if kind is MISSING:
            return []
        for owner, field in OPPONENT_FIELDS.items():
            if field in given and kind != owner:
                self.reader.problems.append(f"{place}: `{field}` belongs to the type {owner}, not to {kind}")
        deterministic = self.reader.flag(f"{place}.deterministic", given.get("deterministic", True))
        if kind == "weighted_mixture":
            return self._weighted(given.get("opponents"), f"{place}.opponents")
        if kind in SCRIPTS:
            return [({"who": SCRIPTS[kind]}, 1.0)]
        who = self._archive(given, place) if kind == "archive" else self._checkpoint(given, place)
        return [({"who": who, "deterministic": deterministic}, 1.0)]

    def _weighted(self, content: Any, place: str) -> list[tuple[dict[str, Any], float]]:
        if not isinstance(content, list) or not content:
            self.reader.wrong(place, "a list of opponents, each with a `type` and a `weight`", content)
            return []
        found = []
        for number, item in enumerate(content):
            weight = item.get("weight", 1.0) if isinstance(item, Mapping) else 1.0
            found.append((f"{place}[{number}].weight", self._opponents(item, f"{place}[{number}]"), weight))
        shared = []
        for opponents, weight in self.reader.weights(found, place):
            total = sum(part for _, part in opponents)
            shared += [(opponent, weight * part / total) for opponent, part in opponents]
        return shared

    def _checkpoint(self, given: Mapping[str, Any], place: str) -> Any:
        value = given.get("checkpoint", "self")
        if not isinstance(value, str) or not value:
            return self.reader.wrong(f"{place}.checkpoint", 'null, "latest" or a path', value)
        return value

    def _archive(self, given: Mapping[str, Any], place: str) -> str:
        """One distribution holds for the complete run."""
        here = f"{place}.distribution"
        if "distribution" in given:
            shares = self.reader.table(given["distribution"], here, SHARES)
            found = {
                name: self.reader.checked(f"{here}.{name}", shares.get(name, 0.0), LeagueOptions.model_fields[name])
                for name in SHARES
            }
            if not self.reader.problems and not any(found.values()):
                self.reader.problems.append(f"`{here}`: at least one share should be > 0")
            if self.league and self.league != found:
                self.reader.problems.append(
                    f"`{here}` differs from that of an earlier archive: a run has only one league"
                )
            self.league = found
        return "archive"

    # --- shaped rewards -------------------------------------------------------------------------------------------

    def _shaping(self, content: Any, place: str) -> dict[str, Any]:
        """A term for each info: constant for N episodes, then linear for K."""
        if isinstance(content, Mapping):
            spelled = {_plain(name): name for name in SHAPING_FIELDS}
            content = {spelled.get(_plain(str(name)), name): value for name, value in content.items()}
        given = self.reader.table(content, place, SHAPING_FIELDS)
        values = {}
        for name, (key, default) in SHAPING_FIELDS.items():
            field = Shaping.model_fields[key.rpartition(".")[2]]
            values[key] = self.reader.checked(f"{place}.{name}", given.get(name, default), field)
        return {
            info: {
                "start": values[f"{term}.start"], "final": values[f"{term}.final"],
                "hold": values["hold"], "fall": values["fall"],
            }
            for term, (info, _, _) in TERMS.items()
        }  # fmt: skip


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
