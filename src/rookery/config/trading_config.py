"""The configuration of older trading trainers: `algorithm`, `environment`, `training`, and settings of a vector env.

    algorithm: DQN
    environment:
      observation_feature_cols: [rsi_14, ema_10, ema_20]
      initial_balance: 100000
      action_type: discrete
    training:
      total_timesteps: 500000

`environment` holds options of the world, and `training` keys of the run, by the names of rookery, Stable-Baselines3 or
CleanRL. Symbols, the folder with data and the number of envs may be in any section.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config.fields import closest_names
from rookery.config.layers import OLD_NAMES, merge, split_names
from rookery.config.schema import RunConfig
from rookery.config.table_reader import TableReader, unknown
from rookery.config.validation import join_problems
from rookery.errors import ConfigError
from rookery.foreign_options import ANSWERS, COMBINED, OPTIONS, RUN_KEYS, SAME
from rookery.learners.registry import specs
from rookery.worlds import registry

ENVIRONMENT = ("environment", "env", "environment_config", "env_config")
TRAINING = ("training", "training_config")
LEARNING = ("hyperparameters", "algorithm_params", "algo_params", "model_params", "agent", "model")
VECTOR = ("vectorized", "vectorised", "vectorization", "vectorized_training", "vectorized_env", "vec_env")
DATA = ("data", "data_config")
SECTIONS = (*ENVIRONMENT, *TRAINING, *LEARNING, *VECTOR, *DATA)
ALGORITHMS = {"ddqn": "dqn", "double_dqn": "dqn", "dddqn": "dqn"}
DATA_KEYS = {"data_dir": "data_dir", "dir": "data_dir", "path": "data_dir", "data_path": "data_dir"} | {
    "symbols": "symbols",
    "symbol": "symbols",
    "timeframe": "timeframe",
}
VECTOR_KEYS = ("n_envs", "num_envs", "start_method", "seed", "backend", "workers")
# How older vector envs step: rookery's step in the same numbers either way.
IGNORED = ("use_shared_memory", "shared_memory", "use_vec_monitor", "monitor", "vec_monitor", "enabled", "enable")
RUN = (*RunConfig.model_fields, *OLD_NAMES, *RUN_KEYS, *ANSWERS, *SAME, *COMBINED, "policy_kwargs")
RUN_NAMES = sorted(
    {*RUN, *(name for names in OPTIONS.values() for name in names)} - {"world", "world_options", "phases"}
)
RUN_SHOWN = ["total_timesteps", "n_envs", "seed", "device", "learning_rate", "batch_size", "gamma", "verbose"]


def is_trading(content: Any) -> bool:
    """Whether this is a configuration of an older trading trainer."""
    if not isinstance(content, Mapping) or "curriculum" in content:
        return False
    return "algorithm" in content or any(isinstance(content.get(name), Mapping) for name in ENVIRONMENT[:1])


def from_trading(content: Mapping[str, Any]) -> dict[str, Any]:
    """A current configuration of the same meaning; it holds only what is given.

    Raises:
        ConfigError: Keys are unknown or values invalid; the message lists all of them, by their own names.

    Example:
        >>> from_trading({"algorithm": "DQN", "environment": {"initial_balance": 1e5}, "training": {"n_envs": 4}})
        {'world': 'forex', 'learner': 'dqn', 'world_options': {'initial_balance': 100000.0}, 'n_envs': 4}
    """
    return _Trading(content).read()


class _Trading:
    """Reads one configuration."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content, self._reader = content, TableReader()
        self._found: dict[str, Any] = {}  # keys of the run
        self._options: dict[str, Any] = {}  # of the world
        self._learning: dict[str, Any] = {}  # of the learner

    def read(self) -> dict[str, Any]:
        self._algorithm()
        for key, value in self._content.items():
            self._top(str(key), value)
        if self._reader.problems:
            raise ConfigError(join_problems(self._reader.problems))
        return self._joined()

    def _joined(self) -> dict[str, Any]:
        learner = self._found.get("learner")
        if any(name in self._content for name in ENVIRONMENT) or self._options:
            self._found.setdefault("world", registry.trading_world())
        if self._options:
            self._found = merge({"world_options": self._options}, self._found)
        if self._learning:
            self._found = merge(self._found, {learner: self._learning} if learner else self._learning)
        first = [key for key in ("world", "learner", "world_options") if key in self._found]
        return {key: self._found[key] for key in dict.fromkeys([*first, *self._found])}

    def _algorithm(self) -> None:
        """A name, or a table with the name and options of the learner."""
        given = self._content.get("algorithm", self._content.get("learner"))
        place = "algorithm"
        if isinstance(given, Mapping):
            self._learning |= {str(key): value for key, value in given.items() if key not in ("name", "type")}
            given, place = given.get("name", given.get("type")), "algorithm.name"
        if given is None:
            return
        name = str(given).lower().replace("-", "_")
        name = ALGORITHMS.get(name, name)
        if name != "auto" and name not in specs():
            self._reader.wrong(place, f"one of {', '.join(known.upper() for known in specs())}", given)
        else:
            self._found["learner"] = name

    def _top(self, key: str, value: Any) -> None:
        if key in ("algorithm", "learner"):
            return
        if key in ENVIRONMENT:
            self._environment(key, value)
        elif key in TRAINING:
            self._run(key, value)
        elif key in LEARNING:
            self._learning |= self._table(key, value)
        elif key in VECTOR:
            self._vector(key, value)
        elif key in DATA and isinstance(value, Mapping):
            self._data(key, value)
        elif key in DATA:
            self._option("data_dir", value)
        elif key in DATA_KEYS:
            self._option(DATA_KEYS[key], value)
        elif key in RUN_NAMES or key in ("world", "world_options"):
            self._set(key, value)
        else:
            near = closest_names(key, [*SECTIONS, "algorithm", *RUN_NAMES])
            names = near or ["algorithm", "environment", "training", "vectorized", "data"]
            self._reader.problems.append(unknown("", key, names))

    def _environment(self, section: str, value: Any) -> None:
        """Options of the world, which it checks itself; keys of the run among them are known by their names."""
        for key, item in self._table(section, value).items():
            if key in ("n_envs", "num_envs", "seed"):
                self._set(key, item)
            elif key in ("id", "env_id", "world"):
                self._set("world", item)
            elif key not in IGNORED:
                self._option(DATA_KEYS.get(key, key), item)

    def _run(self, section: str, value: Any) -> None:
        for key, item in self._table(section, value).items():
            if key in DATA_KEYS and key != "path":
                self._option(DATA_KEYS[key], item)
            elif key in VECTOR and isinstance(item, Mapping):
                self._vector(f"{section}.{key}", item)
            elif key in RUN_NAMES:
                self._set(key, item)
            elif key not in IGNORED:
                self._reader.problems.append(unknown(f"{section}: ", key, closest_names(key, RUN_NAMES) or RUN_SHOWN))

    def _vector(self, section: str, value: Any) -> None:
        table = self._table(section, value)
        if table.get("enabled", table.get("enable")) is False:
            table = {**table, "n_envs": 1}
        for key, item in table.items():
            if key in VECTOR_KEYS:
                self._set(key, item)
            elif key in DATA_KEYS:
                self._option(DATA_KEYS[key], item)
            elif key not in IGNORED:
                self._reader.problems.append(unknown(f"{section}: ", key, [*VECTOR_KEYS, *DATA_KEYS, *IGNORED]))

    def _data(self, section: str, value: Mapping[str, Any]) -> None:
        for key, item in self._table(section, value).items():
            self._option(DATA_KEYS.get(key, key), item)

    def _table(self, section: str, value: Any) -> dict[str, Any]:
        if value is None or isinstance(value, Mapping):
            return {str(key): item for key, item in (value or {}).items() if item is not None}
        self._reader.wrong(section, "a table of keys with values", value)
        return {}

    def _option(self, name: str, value: Any) -> None:
        value = split_names(value) if name == "symbols" else value
        self._once(self._options, name, value)

    def _set(self, name: str, value: Any) -> None:
        self._once(self._found, name, value)

    def _once(self, found: dict[str, Any], name: str, value: Any) -> None:
        """Two sections may give one key if they agree."""
        if name in found and found[name] != value:
            self._reader.problems.append(f"`{name}` is given twice, as {found[name]!r} and {value!r}: give one of them")
        found[name] = value
