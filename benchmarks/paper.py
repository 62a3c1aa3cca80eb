"""Paper trading: parity of 10,000 bars with the backtest, and kills at random moments against an uninterrupted run.

python benchmarks/paper.py
python benchmarks/paper.py --bars 2000 --kills 20
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rookery
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.deploy.paper.account_files import AccountFolder
from rookery.deploy.paper.bar_sources import KillLimits
from rookery.deploy.paper.paper import PaperOptions, paper
from rookery.deploy.paper.parity import check_parity
from rookery.deploy.paper.traded_agents import open_agents

LIMITS = KillLimits(max_drawdown=1.0)
LONGEST = 3.0  # seconds from the start of a trader to its kill
WHILE_TRADING = 0.3  # seconds from its first new line to its kill, every other time
KILLED_BARS = 1500  # of each account that is killed again and again
SERVER = multiprocessing.get_context("forkserver")  # traders begin with everything imported, and nothing used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", type=int, default=10_000, metavar="N", help="bars of the parity (10,000)")
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="kills (100)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paper-") as name:
        folder = Path(name)
        data, run = make_run(folder, options.bars)
        rows = [
            measure_parity(run, data, folder / "account", options.bars),
            measure_kills(run, data, folder / "kills", options.kills, random.Random(options.seed)),
        ]
    print(json.dumps(rows, indent=2))
    return 0 if all(row["passed"] for row in rows) else 1


def make_run(folder: Path, bars: int) -> tuple[str, Path]:
    """Seven coins, and an agent that was trained on them for a moment."""
    data = str(folder / "bars.parquet")
    write(synthesise(assets=7, bars=bars + 1000, seed=1), data)
    quiet = {"panel": False, "plot": False, "tensorboard": False, "report": False}
    result = rookery.train(
        "crypto", learner="ppo", steps=4096, num_envs=16, seed=1, world_options={"data": data}, monitor=quiet,
        runs_dir=str(folder / "runs"), evaluation={"episodes": 1}, verbose=False,
    )  # fmt: skip
    return data, result.path


def measure_parity(run: Path, data: str, account: Path, bars: int) -> dict[str, Any]:
    """Trade on so many bars, and play the log again through the backtest."""
    began = time.perf_counter()
    trade(run, data, account, bars)
    traded = time.perf_counter()
    found = check_parity(AccountFolder(account), open_agents(run))
    return {
        "measure": f"parity on {found.bars:,} bars", **found.as_json(),
        "passed": found.first_difference is None and found.bars == bars,
        "seconds_trading": round(traded - began, 1), "seconds_checking": round(time.perf_counter() - traded, 1),
    }  # fmt: skip


def measure_kills(run: Path, data: str, folder: Path, kills: int, moments: random.Random) -> dict[str, Any]:
    """Kill traders at random moments. Whenever an account has all its bars, its log is compared, and another begins."""
    SERVER.set_forkserver_preload(["rookery.deploy.paper.paper", "torch"])
    trade(run, data, folder / "whole", KILLED_BARS)
    whole = (folder / "whole" / "log.jsonl").read_bytes()
    done, accounts, torn, different = 0, 0, 0, 0
    while done < kills or accounts == 0 or (folder / f"account{accounts}").exists():
        account = folder / f"account{accounts}"
        trader = SERVER.Process(target=trade, args=(run, data, account, KILLED_BARS))
        trader.start()
        if done == kills:
            trader.join()
        elif done % 2:
            trader.join(moments.uniform(0, LONGEST))
        else:
            _wait_for_a_line(trader, account / "log.jsonl")
            trader.join(moments.uniform(0, WHILE_TRADING))
        if trader.exitcode is None:
            os.kill(trader.pid or 0, signal.SIGKILL)
            trader.join()
            done += 1
            torn += _is_torn(account / "log.jsonl")
            continue
        different += (account / "log.jsonl").read_bytes() != whole
        accounts += 1
    orders = [order["id"] for line in AccountFolder(folder / "account0").lines() for order in line.get("orders", ())]
    return {
        "measure": f"SIGKILL at {done} random moments", "accounts": accounts, "bars_of_each": KILLED_BARS,
        "unfinished_lines": torn, "different_logs": different, "orders_twice": len(orders) - len(set(orders)),
        "passed": different == 0 and len(orders) == len(set(orders)) and done == kills,
    }  # fmt: skip


def trade(run: Path, data: str, account: Path, bars: int) -> None:
    paper(run, PaperOptions(data, account=account, bars=bars, start=1, limits=LIMITS))


def _wait_for_a_line(trader: Any, log: Path) -> None:
    size = log.stat().st_size if log.exists() else 0
    while trader.exitcode is None and (not log.exists() or log.stat().st_size <= size):
        time.sleep(0.002)


def _is_torn(log: Path) -> bool:
    """Whether a kill has left an unfinished line."""
    return log.exists() and not log.read_bytes().endswith(b"\n") and log.stat().st_size > 0


if __name__ == "__main__":
    sys.exit(main())
