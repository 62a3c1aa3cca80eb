"""The command `schedule`: update data, search again and promote, every day."""

from __future__ import annotations

import argparse
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.cli.arguments import set_argument, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.deploy.schedule import Plan

FAILED = 1  # the exit status if a step of the last period has failed
NAME = re.compile(r"[^A-Za-z0-9_.+=,@-]+")


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "schedule", _schedule, "update data, search again and promote what is better, every day",
        "Runs `rookery data update`, `rookery search` and `rookery deploy` one after the other. The study of a period "
        "is called NAME-DATE. A step that fails is tried three times, then an alert is sent. After a restart, what "
        "was finished in the same period is not repeated.",
        "rookery schedule crypto.toml --to agents/crypto --data data/5m --every 24h",
    )  # fmt: skip
    parser.add_argument("config", metavar="CONFIG", help="what to search: a config file or a world, as for `search`")
    parser.add_argument("--to", metavar="DIR", required=True, help="the folder of the registry")
    parser.add_argument("--data", metavar="PATH", help="the file or folder of bars to update first")
    parser.add_argument("--every", default="24h", metavar="TIME", help="length of a period, such as 24h or 7d (24h)")
    parser.add_argument("--at", default="00:00", metavar="HH:MM", help="when a period begins, in UTC (00:00)")
    parser.add_argument("--once", action="store_true", help="do what is left of this period, and end: for timers")
    parser.add_argument("--study-name", metavar="NAME", help="the beginning of the studies' names (that of the config)")
    parser.add_argument("--studies-dir", metavar="DIR", help="the folder that holds the studies (studies)")
    parser.add_argument("--margin", type=float, metavar="M", help="as for `rookery deploy`")
    set_argument(parser, "as for `rookery search`, such as search.n_trials=50")
    trust_argument(parser)


def _schedule(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.deploy.schedule import ATTEMPTS, Schedule

    schedule = Schedule(_plan(options), attempts=1 if options.once else ATTEMPTS)
    before = {name: signal.signal(name, lambda *_: schedule.stop()) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        state = schedule.run(options.once)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    if options.json:
        printing.emit_json(state)
    return FAILED if any(step["state"] != "finished" for step in state["steps"].values()) else 0


def _plan(options: argparse.Namespace) -> Plan:
    """What is asked for. The configuration is checked now, and not when the first search begins at night."""
    from rookery.config import user_config
    from rookery.config.search_schema import seconds_in
    from rookery.deploy.schedule import Plan

    config = user_config(options.config, options.set)
    if options.data is not None and not Path(options.data).exists():
        raise OptionError(f"--data {options.data}: there is no such file or folder; `rookery data fetch` makes one")
    try:
        every = float(seconds_in(options.every))
    except ValueError as error:
        raise OptionError(f"--every: {error}") from None
    name = options.study_name or config.search.study_name or NAME.sub("-", Path(options.config).stem).strip("-.")
    margin = () if options.margin is None else ("--margin", str(options.margin))
    return Plan(
        name=name, config=options.config, registry=options.to, data=options.data, every=every, at=_seconds(options.at),
        studies_dir=options.studies_dir or config.search.studies_dir,
        search=tuple(word for change in options.set for word in ("--set", change)),
        deploy=(*margin, *(("--trust",) if options.trust else ())),
    )  # fmt: skip


def _seconds(text: str) -> float:
    """Seconds after midnight.

    >>> _seconds("02:30")
    9000.0
    """
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if found is None:
        raise OptionError(f"--at should be a time of day such as 02:30, got {text!r}")
    return 3600.0 * int(found[1]) + 60.0 * int(found[2])
