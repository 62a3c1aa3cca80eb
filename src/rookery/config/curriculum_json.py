"""The curriculum files of older trainers: JSON with `curriculum`, `hyperparameters`, `training` and `agent`.

`from_json` translates one to a current configuration. `from_grid` translates a file with lists of values
where one value stands otherwise: the lists are the space of a search.

>>> content = {"curriculum": {"phases": [{"name": "first", "episodes": 50, "opponent": {"type": "basic_weak"}}]}}
>>> from_json(content)["phases"]
[{'name': 'first', 'episodes': 50, 'options': {'mode': 'normal', 'keep_mode': True}, 'opponents': [{'who': 'weak'}]}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.config.curriculum_agent import LEARNING, Learning
from rookery.config.fields import closest_names, fields
from rookery.config.layers import MISSING, OLD_NAMES, merge, nested, rename_old_keys
from rookery.config.schema import RunConfig
from rookery.config.sections import LeagueOptions, Phase, Shaping
from rookery.config.table_reader import TableReader, unknown
from rookery.config.validation import join_problems
from rookery.errors import ConfigError
from rookery.learners.registry import specs
from rookery.worlds import registry

SECTIONS = ("curriculum", "hyperparameters", "training", "agent")
# Current keys that the old sections express; all other current keys are allowed beside the old sections.
REPLACED_KEYS = ("phases", "opponents", "learner", "learning_rate", "reward_scale", *specs())

MODES = {"normal": 250, "shooting": 80, "defense": 80}  # with the time limit of each
SCRIPTS = {"none": "none", "basic_weak": "weak", "basic_strong": "strong"}
OPPONENT_TYPES = (*SCRIPTS, "self_play", "weighted_mixture", "archive")
# Which fields of an opponent mean something for which type; `weight` and `deterministic` are never wrong.
OPPONENT_FIELDS = {"self_play": "checkpoint", "weighted_mixture": "opponents", "archive": "distribution"}

# Terms of the shaped reward: the world's info, its first and its final weight.
TERMS = {
    "closeness": ("reward_closeness_to_puck", 20.0, 1.5),
    "touch": ("reward_touch_puck", 15.0, 1.0),
    "direction": ("reward_puck_direction", 0.0, 2.0),
}
HOLD, FALL = 600, 400  # N and K

# Numbers >= this are steps, smaller ones are episodes: both are found in files.
STEPS_FROM = 10_000
EVERY = {"checkpoint_save_freq": "checkpoints", "checkpoint_frequency": "checkpoints", "eval_frequency": "evaluation"}
TRAINING = ("max_episode_steps", *LEARNING, "reward_scale", *EVERY)

POSITIVE_INT = fields()["evaluation.episodes"]
CURRENT_KEYS = [name for name in (*RunConfig.model_fields, *OLD_NAMES) if name not in REPLACED_KEYS]


def is_curriculum(content: Any) -> bool:
    """Whether this is the content of an old curriculum file."""
    return isinstance(content, Mapping) and "curriculum" in content


def from_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """The current configuration of the same meaning; it holds only what the file gives.

    Raises:
        ConfigError: Keys are unknown or values invalid; the message lists all of them, by the file's own names.
    """
    reader = TableReader()
    current = _current_keys(reader, content)
    curriculum = reader.table(content["curriculum"], "curriculum", ("phases",))
    learning = Learning(reader, content)
    running, longest = _training(reader, content.get("training"), learning)
    phases = PhasesReader(reader, longest)
    found = {
        "world": registry.curriculum_world(),
        **learning.sections(),
        **running,
        "phases": phases.read(curriculum.get("phases")),
    }
    if learning.init_from is not None:
        found["init_from"] = learning.init_from
    if learning.world_options:
        found["world_options"] = learning.world_options
    if phases.league:
        found["league"] = phases.league
    if reader.problems:
        raise ConfigError(join_problems(reader.problems))
    return merge(found, current)


def _current_keys(reader: TableReader, content: Mapping[str, Any]) -> dict[str, Any]:
    """Current keys beside the old sections."""
    for key in map(str, content):
        if key in REPLACED_KEYS:
            reader.problems.append(f"`{key}` cannot be combined with `curriculum`: give it in {', '.join(SECTIONS)}")
        elif key not in SECTIONS and key not in CURRENT_KEYS:
            near = closest_names(key, [*SECTIONS, *CURRENT_KEYS])
            reader.problems.append(unknown("", key, near or list(SECTIONS)))
    return rename_old_keys({key: value for key, value in content.items() if key in CURRENT_KEYS})


def _training(reader: TableReader, content: Any, learning: Learning) -> tuple[dict[str, Any], int | None]:
    """The options of the run, and the time limit of its episodes."""
    found: dict[str, Any] = {}
    longest = None
    for name, value in reader.table(content, "training", TRAINING).items():
        place = f"training.{name}"
        if name in LEARNING:
            learning.train_by(name, value)
        elif name == "reward_scale":
            found["reward_scale"] = reader.checked(place, value, fields()["reward_scale"])
        elif (number := reader.checked(place, value, POSITIVE_INT)) is MISSING:
            continue
        elif name == "max_episode_steps":
            longest = number
        else:
            found = merge(found, nested(_every(name, number), number))
    return found, longest


def _every(name: str, number: int) -> str:
    """The key of an interval between two evaluations or checkpoints."""
    steps = name != "checkpoint_save_freq" and number >= STEPS_FROM
    return f"{EVERY[name]}.{'every' if steps else 'every_episodes'}"


# --- phases: the world, the opponents and the shaped rewards of each --------------------------------------------------

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


# --- grid files -------------------------------------------------------------------------------------------------------

PLACES = (("hyperparameters",), ("training",), ("agent", "hyperparameters"))
LISTS = ("hidden_dim", "latent_dim")  # whose one value is a list already
Place = tuple[str, ...]
ANY_PHASE = {"name": "all", "episodes": 1, "opponent": {"type": "basic_weak"}}  # for the translation alone


def is_grid(content: Any) -> bool:
    """Whether this is the content of a grid file."""
    return isinstance(content, Mapping) and "world" not in content and any(True for _ in _lists(content))


def from_grid(content: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the first value of each list, and all of them in `search.space`.

    Raises:
        ConfigError: A key is unknown, a list is empty, or a value is invalid.
    """
    lists = dict(_lists(content))
    empty = [".".join(place) for place, values in lists.items() if not values]
    if empty:
        raise ConfigError(join_problems([f"`{name}` is an empty list: give values to choose from" for name in empty]))
    first = merge(content, *(_at(place, values[0]) for place, values in lists.items()))
    base = _translated(first)
    space: dict[str, Any] = {}
    for place, values in lists.items():
        space |= _dimension(
            place, [_flat(_translated(merge(first, _at(place, value)))) for value in values], _flat(base)
        )
    return merge(base, {"search": {"space": space}})


def _dimension(place: Place, found: list[dict[str, Any]], base: Mapping[str, Any]) -> dict[str, Any]:
    """The key that a list is about: the one that differs between its values."""
    keys = [key for key in dict.fromkeys([*base, *(key for one in found for key in one)]) if _differs(key, found)]
    if len(keys) > 1:
        raise ConfigError(f"`{'.'.join(place)}` changes more than one key ({', '.join(keys)}): give one value")
    values = [one.get(key) for key in keys for one in found]
    return {key: {"choice": [value for k, value in enumerate(values) if value not in values[:k]]} for key in keys}


def _differs(key: str, found: list[dict[str, Any]]) -> bool:
    return any(one.get(key) != found[0].get(key) for one in found)


def _translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """A file without a curriculum is about the world as it is, with its own length of an episode."""
    if "curriculum" in content:
        return from_json(content)
    plain = from_json({**content, "curriculum": {"phases": [ANY_PHASE]}})
    found = {key: value for key, value in plain.items() if key != "phases"}
    length = content.get("training", {}).get("max_episode_steps")
    return found if length is None else {**found, "episode_length": length}


def _lists(content: Mapping[str, Any]) -> Iterator[tuple[Place, list[Any]]]:
    for section in PLACES:
        table: Any = content
        for name in section:
            table = table.get(name) if isinstance(table, Mapping) else None
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if isinstance(value, list) and (name not in LISTS or any(isinstance(item, list) for item in value)):
                yield (*section, str(name)), value


def _at(place: Place, value: Any) -> dict[str, Any]:
    return nested(".".join(place), value)


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        found |= _flat(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return found
