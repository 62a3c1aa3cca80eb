"""What trading trainers call: vector envs of a market by symbols and folder, and a `TrainerAgent` over `rookery.train`.

    from rookery.markets import TrainerAgent

    trainer = TrainerAgent({"algorithm": "PPO", "environment": {"lookback": 10}, "training": {"total_timesteps": 1e6}})
    trainer.set_env(trainer.create_vectorized_env(symbols=["EURUSD", "GBPUSD"], data_dir="data/forex", n_envs=64))
    model_path = trainer.train()                  # the folder of the run; rookery.load(model_path) is the agent

docs/markets.md describes the worlds and their options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.config import collect_config
from rookery.config.layers import split_names
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.errors import OptionError
from rookery.training.resolve.session_world import session_world
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.sb3 import EngineVecEnv
    from rookery.training.run.callbacks import Result

__all__ = [
    "TrainerAgent",
    "build_vec_env",
    "create_vectorized_env",
    "create_vectorized_environment",
    "get_recommended_n_envs",
]

MOST_ENVS = 16  # that `get_recommended_n_envs` recommends
Symbols = str | Sequence[str] | None


def create_vectorized_env(
    symbols: Symbols = None,
    data_dir: str | PathLike[str] | None = None,
    n_envs: int | None = None,
    use_shared_memory: bool = True,
    env_config: Mapping[str, Any] | None = None,
    *,
    world: str | None = None,
    seed: int | None = None,
    **make_options: Any,
) -> EngineVecEnv:
    """Envs of a market as a Stable-Baselines3 `VecEnv`, which `rookery.train` takes too.

    Args:
        symbols: The symbols to trade, which the envs take in turns; all in the data if omitted.
        data_dir: A file or folder with bars; a synthetic set if omitted.
        n_envs: How many envs; None takes `get_recommended_n_envs(symbols)`. Envs are compiled: hundreds cost little.
        use_shared_memory: Either value gives the same numbers at the same speed: the envs step in this process, and
            their data are in memory that all processes share.
        env_config: Options of the world, such as `{"lookback": 10, "initial_balance": 100_000}`.
        world: "forex" if omitted; "crypto", or another world of rookery that has symbols.
        seed: Of the first `reset`; env i gets `seed + i`. Neighbouring envs begin with different symbols.
        make_options: Options of `rookery.make_vec`, such as `workers` or `step_timeout`.

    Example:
        >>> envs = create_vectorized_env(["EURUSD", "USDJPY"], n_envs=4)
        >>> envs.reset().shape[0]
        4
        >>> envs.close()
    """
    from rookery.sb3 import as_vec_env

    name = world or registry.trading_world()
    spec = registry.get(name)
    source = name if spec is None else spec.source
    given = {"symbols": _listed(symbols), "data_dir": None if data_dir is None else str(data_dir)}
    options = {**(env_config or {}), **{name: value for name, value in given.items() if value is not None}}
    count = get_recommended_n_envs(options.get("symbols")) if n_envs is None else n_envs
    defaults = {"autoreset_mode": "same_step", "bad_values": "finite"}
    envs = as_vec_env(make_vec(source, count, env_kwargs=options, **{**defaults, **make_options}))
    envs.seed(seed)
    return envs


create_vectorized_environment = build_vec_env = create_vectorized_env  # as older trainers call it


def get_recommended_n_envs(symbols: Symbols | int = None) -> int:
    """How many envs to run where each one needs a process: one for each symbol, at most as many as cores, and 16.

    The worlds of rookery are compiled: for them, hundreds of envs are faster.

    >>> get_recommended_n_envs(["EURUSD"])
    1
    """
    count = symbols if isinstance(symbols, int) else len(_listed(symbols) or range(MOST_ENVS))
    if count < 1:
        raise OptionError(f"symbols should be at least one name, got {symbols!r}")
    return min(count, usable_cores(), MOST_ENVS)


def _listed(symbols: Symbols) -> list[str] | None:
    """Symbols as a list, also from a text with commas."""
    if symbols is None:
        return None
    found = split_names(symbols) if isinstance(symbols, str) else list(symbols)
    if not found or not all(isinstance(name, str) and name for name in found):
        raise OptionError(f"symbols should be a list of names, such as ['EURUSD', 'GBPUSD'], got {symbols!r}")
    return found


class TrainerAgent:
    """Trains an agent by a configuration with `algorithm`, `environment` and `training`, or any of `rookery.train`'s.

    Args:
        config: As a dict, or the path of a file. It is checked at once.

    Example:
        >>> trainer = TrainerAgent({"algorithm": "DQN", "training": {"total_timesteps": 1_000}, "environment": {}})
        >>> trainer.config["learner"], trainer.config["steps"]
        ('dqn', 1000)
    """

    def __init__(self, config: Mapping[str, Any] | str | PathLike[str]) -> None:
        if isinstance(config, Mapping) and not {"world", "environment", "curriculum"} & config.keys():
            config = {"environment": {}, **config}
        self.config: dict[str, Any] = collect_config(config)
        self.env: Any = None
        self.result: Result | None = None  # of the last `train`

    def create_vectorized_env(
        self,
        symbols: Symbols = None,
        data_dir: str | PathLike[str] | None = None,
        n_envs: int | None = None,
        use_shared_memory: bool = True,
        **make_options: Any,
    ) -> EngineVecEnv:
        """Envs with the options of the configuration: see `rookery.markets.create_vectorized_env`. Omitted values are
        taken from the configuration, if it has them."""
        world, count = self.config.get("world"), self.config.get("num_envs")
        n_envs = count if n_envs is None and isinstance(count, int) else n_envs
        options = self.config.get("world_options", {})
        return create_vectorized_env(symbols, data_dir, n_envs, use_shared_memory, options, world=world, **make_options)

    create_vectorized_environment = create_vectorized_env

    @staticmethod
    def get_recommended_n_envs(symbols: Symbols | int = None) -> int:
        """See `rookery.markets.get_recommended_n_envs`."""
        return get_recommended_n_envs(symbols)

    def set_env(self, env: Any) -> None:
        """The envs to train on: what `create_vectorized_env` returned, or anything else that `rookery.train` takes."""
        session_world(env)  # its error says what does not fit
        self.env = env

    set_environment = set_env

    def train(self, **options: Any) -> Path:
        """Train, on the envs of `set_env` or else by the configuration alone; returns the folder of the run, which
        `rookery.load` takes. `options` are those of `rookery.train`. `result` then holds what it returned."""
        from rookery.training.run.train import train

        if self.env is None:
            self.result = train(self.config, **options)
        else:
            of_env = ("world", "world_options", "num_envs")
            own = {key: value for key, value in self.config.items() if key not in of_env}
            self.result = train(self.env, **{**own, **options})
        return self.result.path
