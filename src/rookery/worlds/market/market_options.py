"""Options of market worlds: other names for them, lists of names, and what a search varies unless a configuration says
otherwise.

The ranges are those that traders search with on 5-minute bars. A rollout of few envs can be shorter than a large
minibatch, which then is the whole rollout: so the length of the rollout varies too.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.kernel.world import KernelWorld

OTHER_NAMES = {
    "data_dir": "data", "observation_feature_cols": "columns", "feature_columns": "columns", "window_size": "lookback",
    "lookback_window": "lookback", "transaction_cost": "fee", "trading_fee": "fee",
    "max_daily_drawdown": "daily_drawdown",
}  # fmt: skip
PAID, POSITIVE = ("fee", "half_spread", "slippage"), ("leverage", "initial_balance")
OF_RUNS = ("evaluation_split",)  # options that only runs read: see `built_in_worlds.py`


def with_own_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names that the worlds use.

    >>> with_own_names({"data_dir": "bars", "lookback": 3})
    {'data': 'bars', 'lookback': 3}
    """
    own: dict[str, Any] = {}
    for name, value in options.items():
        meant = OTHER_NAMES.get(name, name)
        if meant in own and value is not None and own[meant] != value:
            raise OptionError(f"{meant!r} is given twice, by two names: {own[meant]!r} and {value!r}")
        if name not in OF_RUNS and (value is not None or meant not in own):
            own[meant] = value
    return own


def check_lookback(lookback: Any) -> None:
    """Refuse a lookback that is not a number of bars."""
    if isinstance(lookback, bool) or not isinstance(lookback, int) or lookback < 1:
        raise OptionError(f"lookback should be a number of bars, at least 1, got {lookback!r}")


def refuse_unknown(name: str, world: type[KernelWorld], parameters: Iterable[str], options: Mapping[str, Any]) -> None:
    """Refuse options that the world does not have; the error names the nearest one.

    Args:
        name: Of the world, for the message.
        world: Its class, whose `__init__` takes options.
        parameters: Names of its parameters.
        options: As they are given, by any name.
    """
    own = [option for option in inspect.signature(world.__init__).parameters if option not in ("self", "parameters")]
    known = [*own, "action_type", "layout", "time_limit", *parameters, *world.aliases, *OTHER_NAMES, *OF_RUNS]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"{name} has no option {option!r}{hint} (it has {', '.join(known)})")
    _refuse_impossible(name, with_own_names(options))


def _refuse_impossible(name: str, options: Mapping[str, Any]) -> None:
    """Refuse rates that would pay the account for its orders, or take all of them, and accounts without money."""
    import numpy as np  # commands such as `rookery --help` read this file

    for option in (name for name in (*PAID, *POSITIVE) if name in options):
        numbers = np.asarray(options[option])
        if numbers.dtype.kind not in "iuf":
            continue  # the kernel says what is wrong with it
        if option in PAID and not ((numbers >= 0) & (numbers < 1)).all():
            wanted = "a part of the value, such as 0.001 for 0.1 %"
        elif option in POSITIVE and not ((numbers > 0) & (numbers < np.inf)).all():
            wanted = "a number > 0"
        else:
            continue
        raise OptionError(f"{name}: {option} should be {wanted}, got {options[option]!r}")


def names(option: str, value: Any) -> tuple[str, ...] | None:
    """A list of names, also from a text with commas; None stays None.

    >>> names("symbols", "EURUSD, GBPUSD")
    ('EURUSD', 'GBPUSD')
    """
    if value is None:
        return None
    found = value.split(",") if isinstance(value, str) else value
    if (
        not isinstance(found, Sequence)
        or not found
        or not all(isinstance(name, str) and name.strip() for name in found)
    ):
        raise OptionError(f"{option} should be a list of names, or a text such as A,B, got {value!r}")
    cleaned = tuple(name.strip() for name in found)
    twice = [name for name in cleaned if cleaned.count(name) > 1]
    if twice:
        raise OptionError(f"{option}: {twice[0]!r} is named twice")
    return cleaned


WIDTHS = (512, 768, 1024, 1536)  # of two hidden layers
PPO: dict[str, Any] = {
    "ppo.learning_rate": {"log": [1e-6, 1e-3]},
    "ppo.batch_size": {"choice": [2048, 4096, 8192]},
    "ppo.rollout_length": {"choice": [128, 256, 512]},
    "ppo.gamma": {"uniform": [0.88, 0.99]},
    "ppo.gae_lambda": {"uniform": [0.90, 0.99]},
    "ppo.clip": {"uniform": [0.1, 0.4]},
    "ppo.entropy": {"log": [1e-5, 2e-2]},
    "ppo.epochs": {"int": [4, 16]},
    "ppo.hidden": {"choice": [[width, width] for width in WIDTHS]},
}
CRYPTO_SPACE: dict[str, Any] = {**PPO, "world_options.lookback": {"int": [1, 5]}}
PERPETUALS_SPACE = CRYPTO_SPACE
FOREX_SPACE: dict[str, Any] = {**PPO, "world_options.lookback": {"int": [1, 10]}}  # the world's own is 10
FOREX_ACCOUNT_SPACE = FOREX_SPACE
