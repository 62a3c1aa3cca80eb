"""Rows of the market worlds' table: steps per second, beside the envs that others use, and memory."""

from __future__ import annotations

import multiprocessing
import re
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rookery
from engine_rows import Row, ratio_row
from measure import in_turns, stepper
from rookery.data.dataset import BAR_COLUMNS, Dataset
from rookery.data.features import CRYPTO_FEATURES, FOREX_FEATURES
from rookery.data.storage import write
from rookery.data.synth import synthesise

FOREX = {"columns": FOREX_FEATURES, "lookback": 10}
CRYPTO = {"columns": (*BAR_COLUMNS, *CRYPTO_FEATURES), "lookback": 5}
FEE = 0.0003  # of each trade, in all three worlds that are compared


def speed_rows(rounds: int, quick: bool) -> list[Row]:
    """256 envs with all that an agent gets: observations written in every step, infos too."""
    rows = []
    for name, world, least, options in (
        ("forex, lookback 10, nine features", "rookery/Forex-v0", 7e6, FOREX),
        ("crypto, 7 x 14 columns, lookback 5", "rookery/Crypto-v0", 1.5e6, CRYPTO),
        ("perpetuals, 7 x 14 columns, lookback 5", "rookery/Perpetuals-v0", 1.5e6, CRYPTO),
        ("perpetuals, orders inside the bar", "rookery/Perpetuals-v0", 1.5e6, {**CRYPTO, "action_type": "brackets"}),
        ("forex account, 4 x 9 columns, lookback 10", "rookery/ForexAccount-v0", 1.5e6, FOREX),
    ):
        for kind, copy in (("copy=False", {"copy": False}), ("as usual", {})):
            envs = rookery.make_vec(world, 256, env_kwargs=options, **copy)
            rates = in_turns({"ours": stepper(envs, 256)}, rounds)["ours"]
            envs.close()
            best = float(np.median(rates)) / 1e6
            rows.append(Row(f"{name}, 256 envs, {kind}", f"{np.median(rates):,.0f}/s", "", best, least / 1e6, " M/s"))
    return rows


def peer_rows(rounds: int, quick: bool) -> list[Row]:
    """The envs that others use, on the same bars and costs, in the vector env that they are used with."""
    warnings.filterwarnings("ignore")
    data = synthesise(1, 2000, "1h", kind="forex", symbols=("EURUSD",))
    rows = []
    for name, make, ours in (
        ("gym-anytrading", _anytrading, _beside_anytrading),
        ("gym-trading-env", _trading_env, _beside_trading_env),
    ):
        try:
            makers = [partial(make, data)] * 8
            sides = {"sync": gym.vector.SyncVectorEnv(makers), "async": gym.vector.AsyncVectorEnv(makers)}
        except ImportError as error:
            print(f"{name} is not installed ({error}): its row is skipped", file=sys.stderr)
            continue
        mine = ours(data)
        found = in_turns({"ours": stepper(mine, 256), **{key: stepper(envs, 8) for key, envs in sides.items()}}, rounds)
        theirs = np.maximum(found["sync"], found["async"])
        rows.append(
            ratio_row(f"forex over {name} in the faster of Sync- and AsyncVectorEnv", found["ours"], theirs, 100)
        )
        for envs in (mine, *sides.values()):
            envs.close()
    return rows


def _frame(data: Dataset, names: dict[str, str]) -> Any:
    import pandas

    bars = data.bars[0]
    index = pandas.DatetimeIndex(bars.times.astype("datetime64[s]"))
    return pandas.DataFrame({new: bars[old] for old, new in names.items()}, index=index)


def _anytrading(data: Dataset) -> gym.Env:
    from gym_anytrading.envs import ForexEnv

    env = ForexEnv(_frame(data, {name: name.capitalize() for name in BAR_COLUMNS}), 10, (10, len(data.bars[0])))
    env.trade_fee = FEE * float(data.bars[0]["close"][0])
    return env


def _beside_anytrading(data: Dataset) -> Any:
    """The same window of closes, long or short, with the same fee."""
    options = {"data": data, "columns": "close", "lookback": 10, "costs": {"preset": "none", "fee": FEE}}
    return rookery.make_vec("rookery/Forex-v0", 256, env_kwargs={**options, "episode_length": 0})


def _trading_env(data: Dataset) -> gym.Env:
    from gym_trading_env.environments import TradingEnv

    frame = _frame(data, {name: name for name in BAR_COLUMNS})
    frame["feature_close"] = frame["close"].pct_change().fillna(0.0)
    return TradingEnv(frame, positions=[-1, 0, 1], windows=10, trading_fees=FEE, max_episode_duration=500, verbose=0)


def _beside_trading_env(data: Dataset) -> Any:
    options = {"data": data, "columns": "close", "lookback": 10, "costs": {"preset": "none", "fee": FEE}}
    return rookery.make_vec("rookery/Forex-v0", 256, env_kwargs={**options, "cooldown": 0})


def memory_rows(rounds: int, quick: bool) -> list[Row]:
    """All the memory of processes that step crypto envs, shared pages counted once (proportional set size), over that
    of one process with one env."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("memory is measured on Linux only: its rows are skipped", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bars.parquet"
        write(synthesise(7, 20_000 if quick else 200_000, "5m"), file)
        _memory(str(file), [1])  # so that tables are built and code is compiled before anything is measured
        one, many = _memory(str(file), [1]), _memory(str(file), [256])
        eight = _memory(str(file), [1] * 8)
    size = f"bars {one['tables'] / 2**20:,.0f} MiB"
    return [
        Row(f"memory of 256 crypto envs over one, {size}", _mib(many["all"]), _mib(one["all"]),
            many["all"] / one["all"], 1.2, most=True),
        Row(f"memory of the bars in 8 processes over one, {size}", _mib(eight["tables"]), _mib(one["tables"]),
            eight["tables"] / one["tables"], 1.2, most=True),
    ]  # fmt: skip


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _memory(file: str, sizes: list[int]) -> dict[str, float]:
    """Proportional set sizes, summed over processes that run at the same time: of everything, and of mapped tables."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(sizes))
    with context.Pool(len(sizes), initializer=_keep, initargs=(barrier,)) as pool:
        found = pool.starmap(_step_and_weigh, [(file, size) for size in sizes], chunksize=1)
    return {name: float(sum(each[name] for each in found)) for name in found[0]}


def _keep(barrier: Any) -> None:
    globals()["together"] = barrier


def _step_and_weigh(file: str, num_envs: int) -> dict[str, float]:
    envs = rookery.make_vec("rookery/Crypto-v0", num_envs, env_kwargs={"data": file, "lookback": 5})
    envs.reset(seed=1)
    for table in envs.world.tables.values():
        table.sum()  # every page is in memory
    for _ in range(100):
        envs.step(envs.action_space.sample())
    globals()["together"].wait(300)  # all are in memory at the same time
    weights = {"all": _pss(""), "tables": _pss("tables-")}
    globals()["together"].wait(300)
    envs.close()
    return weights


def _pss(part: str) -> float:
    """Bytes of this process's memory, of files whose path contains `part`; a page that n processes share counts 1/n."""
    total, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counted = part in line
        elif counted and line.startswith("Pss:"):
            total += int(line.split()[1])
    return 1024.0 * total


ROWS = {"speed": speed_rows, "peers": peer_rows, "memory": memory_rows}
