"""`rookery paper`: the champion on bars as they come. Real money is rejected before a key is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rookery.config import RunConfig
from rookery.console import printable, say
from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import CCXT, Download, time_name
from rookery.data.opened_data import open_data
from rookery.deploy.paper.account import Account, Handover
from rookery.deploy.paper.account_files import SHADOW, AccountEvents, AccountFolder, Line, PaperStatus, read_status
from rookery.deploy.paper.bar_sources import (
    Arrival,
    BarSource,
    FeedBars,
    FileBars,
    KillLimits,
    all_times,
    bars_at,
    last_time,
    parse_speed,
)
from rookery.deploy.paper.paper_status import account_path
from rookery.deploy.paper.paper_world import MarketForm, first_bar, first_decision, form_of
from rookery.deploy.paper.traded_agents import TradedAgents, open_agents
from rookery.errors import DataError, KillSwitch, LiveAccount, OptionError, RookeryError
from rookery.monitor.alerts import Alerts

HISTORY = 600  # bars that are fetched before the first one, for features
OnLine = Callable[[Account, Line], None]
PAPER_HOSTS = ("paper-api.alpaca.markets", "data.alpaca.markets", "127.0.0.1", "localhost", "::1")
ADDRESSES = ("APCA_API_BASE_URL", "ALPACA_BASE_URL", "ALPACA_API_BASE_URL", "APCA_API_DATA_URL")
KEYS = ("APCA_API_KEY_ID", "ALPACA_API_KEY")
LIVE_KEY = "AK"  # keys of Alpaca's live accounts begin with it, those of paper accounts with PK
REMEDY = "rookery trades on paper only"


@dataclass(frozen=True)
class PaperOptions:
    """How to trade on paper.

    Attributes:
        data: A file or folder of bars, "alpaca", or "ccxt:" and the name of an exchange.
        speed: Of a file: a factor such as "60x", or "max".
        start: The first bar to decide on, in seconds since 1970; None: after the bars that the agent was trained on.
        account: The folder of the account; None: `paper/` in that of the registry or run.
        handover: "keep" or "close": see `Account`.
        shadow: Whether the challenger trades beside it, in an account of its own.
        resume_after_kill: Whether to continue after the kill-switch.
        history: Bars that are fetched before the first one.
        bars: Stop after so many bars; None: never.
    """

    data: str
    speed: str = "max"
    start: int | None = None
    account: Path | None = None
    handover: Handover = "keep"
    shadow: bool = False
    resume_after_kill: bool = False
    history: int = HISTORY
    bars: int | None = None
    limits: KillLimits = field(default_factory=KillLimits)


def paper(
    what: str | Path,
    options: PaperOptions | str | Path,
    runs_dir: str | Path = "runs",
    *,
    trust: bool = False,
    on_line: OnLine | None = None,
    alerts: Alerts | None = None,
) -> PaperStatus:
    """Trade on paper until the bars end; returns what the account is worth then. The same call continues at the next
    bar.

    Args:
        what: The folder of a registry, whose champion trades; or a run, by its name or path.
        options: Where bars come from: a file or folder, "alpaca", or "ccxt:" and the name of an exchange; or
            `PaperOptions` with this and all else.
        runs_dir: The folder of the runs.
        trust: Run the code of the run's world without a question, even if this user has not trained with it here.
        on_line: Called with the account and each line of its log.
        alerts: Where alerts are sent; if omitted, as the environment variables say.

    Raises:
        KillSwitch: A limit has stopped the account.
        LiveAccount: What is given is not a paper account.
    """
    if not isinstance(options, PaperOptions):
        options = PaperOptions(str(options))
    refuse_live(options.data)
    agents = open_agents(what, runs_dir, trust)
    shadow = agents.challenger() if options.shadow else None
    folder = AccountFolder(account_path(agents, options.account))
    with ExitStack() as stack:
        stack.enter_context(folder.locked())
        trader = Trader(agents, shadow, folder, options, on_line or _nothing, alerts or Alerts.from_environment())
        stack.callback(trader.close)
        trader.run()
    return read_status(folder)


class Trader:
    """The accounts of the champion and, maybe, of the challenger, on the same bars."""

    def __init__(
        self, agents: TradedAgents, shadow: TradedAgents | None, folder: AccountFolder, options: PaperOptions,
        on_line: OnLine, alerts: Alerts,
    ) -> None:  # fmt: skip
        self._options, self._folder, self._on_line, self._alerts = options, folder, on_line, alerts
        self._shadow_agents = shadow
        self._events = AccountEvents(folder.path)
        traded = agents.load(agents.first_number())
        form = _form_of_account(folder) or form_of(traded.config)
        self._source, first = _source(options, form, traded.config)
        self.account, self._known = self._opened(agents, folder, first)
        self._shadow: Account | None = None
        self._times = all_times(self._known)
        self._resumed = False
        self._seen_refusals: set[int] = set()

    def run(self) -> None:
        """Trade until the bars end."""
        self._go_on_after_kill()
        try:
            with self._stopping():
                self.account.finish_closing()
                most = self._options.bars
                for arrival in self._source.arrivals(self._known):
                    if most is not None and self.account.state.bars >= most:
                        return
                    self._take(arrival)
        except KillSwitch as error:
            facts = {"kind": error.kind, "account": str(self._folder.path), "equity": self.account.state.equity}
            self._tell("kill-switch", f"paper trading has stopped: {error}", facts)
            raise

    def close(self) -> None:
        for account in filter(None, (self.account, self._shadow)):
            account.log.close()

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Write why trading stops, if the account itself has not."""
        try:
            yield
        except KillSwitch as error:
            if self.account.state.killed is None:
                self.account.kill(error.kind, str(error))
            raise
        except DataError as error:
            self.account.kill("bad-bars", str(error))
            raise KillSwitch(str(error), "bad-bars") from None

    def _go_on_after_kill(self) -> None:
        killed = self.account.state.killed
        if killed is None:
            return
        if not self._options.resume_after_kill:
            raise KillSwitch(
                f"the kill-switch has stopped this account at {time_name(self.account.state.time)} ({killed['why']}): "
                "look at it, then continue with --resume-after-kill",
                killed["reason"],
            )
        if killed["reason"] == "account-lost":
            raise KillSwitch("the account is lost: begin a new one in another folder with --account", "account-lost")
        self.account.resume_after_kill()
        self._resumed = True

    def _take(self, arrival: Arrival) -> None:
        if arrival.dataset is not None:
            self._known = arrival.dataset
            self._times = all_times(self._known)
            self.account.extend(self._known)
        for time in arrival.times:
            self._options.limits.check_future(time)
        self._trade(self.account, arrival)
        if self._shadow_agents is not None:
            self._take_in_shadow(self._shadow_agents, arrival)

    def _tell(self, kind: str, text: str, facts: dict[str, Any]) -> None:
        """Send an alert, and remember it."""
        self._events.alert(kind, text)
        self._alerts.send(kind, text, facts)

    def _trade(self, account: Account, arrival: Arrival) -> None:
        last = arrival.times[-1]
        due = self._times[(self._times > account.state.time) & (self._times <= last)].tolist()
        for time in due:
            if account is self.account:
                self._check_gap(account, time)
            line = account.on_bar(time, bars_at(self._known, time), missed=arrival.is_live and time != last)
            if arrival.is_live and account is self.account:
                self._events.arrived(time)
            self._mention_refusals(account)
            self._on_line(account, line)

    def _check_gap(self, account: Account, time: int) -> None:
        """Bars that are missing between two that have come. After a resumption the gap is known."""
        if account.state.bars and not self._resumed:
            known = self._known
            self._options.limits.check_gap(account.state.time, time, known.timeframe, known.calendar, arrived=True)
        self._resumed = False

    def _take_in_shadow(self, agents: TradedAgents, arrival: Arrival) -> None:
        """The challenger's account. What stops it does not stop the champion's."""
        try:
            if self._shadow is None:
                self._shadow = self._begin_shadow(agents, arrival.times[0])
            elif arrival.dataset is not None:
                self._shadow.extend(self._known)
            if self._shadow is not None and self._shadow.state.killed is None:
                self._trade(self._shadow, arrival)
        except RookeryError as error:
            say(f"the shadow account: {error}")
            if self._shadow is not None and self._shadow.state.killed is None:
                self._shadow.kill(error.kind if isinstance(error, KillSwitch) else "bad-bars", str(error))

    def _begin_shadow(self, agents: TradedAgents, start: int) -> Account | None:
        folder = AccountFolder(self._folder.path / SHADOW)
        if not folder.has_begun:
            if agents.current() is None:
                return None
            folder.create(self._known, start, self._about(agents))[0].close()
        account, _ = self._opened(agents, folder, None)
        account.extend(self._known)
        return account

    def _opened(
        self, agents: TradedAgents, folder: AccountFolder, first: Callable[[], tuple[Dataset, int]] | None
    ) -> tuple[Account, Dataset]:
        """The account of a folder, as its log says, or a new one."""
        if folder.has_begun:
            log, known = folder.open()
        else:
            assert first is not None
            dataset, start = first()
            log, known = folder.create(dataset, start, self._about(agents))
        try:
            owner = log.lines[0]["agents"]
            if owner != agents.name:
                raise OptionError(
                    f"{printable(folder.path)} is the account of {printable(owner)}: name another folder with --account"
                )
            account = Account(agents, log, known, self._options.limits.max_drawdown, self._options.handover)
        except BaseException:
            log.close()
            raise
        account.state.time = max(account.state.time, log.lines[0]["start"] - 1)
        return account, known

    def _about(self, agents: TradedAgents) -> dict[str, Any]:
        return {"agents": agents.name, "data": printable(self._options.data)}

    def _mention_refusals(self, account: Account) -> None:
        for number, why in account.succession.refused.items():
            if number not in self._seen_refusals:
                self._seen_refusals.add(number)
                text = f"version {number} cannot take over the account, and version {account.version} continues: {why}"
                say(text)
                self._tell("handover", text, {"version": number, "account": str(self._folder.path)})


def _source(
    options: PaperOptions, form: MarketForm, config: RunConfig
) -> tuple[BarSource, Callable[[], tuple[Dataset, int]]]:
    """Where bars come from; and, for a new account, the first bars and the first one to decide on."""
    data = options.data
    if data == "alpaca" or data.startswith(CCXT):
        feed = FeedBars(Download(data, form.symbols, form.timeframe), form.calendar, options.limits)

        def from_feed() -> tuple[Dataset, int]:
            history = feed.history(options.history)
            first_decision(config, form, history)  # refuses too few bars
            return history, last_time(history) + 1

        return feed, from_feed
    if data == "ccxt":
        raise OptionError("--data ccxt names no exchange: give ccxt:NAME, such as ccxt:kraken")
    dataset = open_data(data, symbols=form.symbols, timeframe=form.timeframe, usual_calendar=form.calendar)
    bars = FileBars(dataset, parse_speed(options.speed))
    return bars, lambda: (dataset, first_bar(config, form, dataset, options.start))


def _form_of_account(folder: AccountFolder) -> MarketForm | None:
    """The form of an account's market, if it has begun: its training data need not be there any more."""
    if not folder.has_begun:
        return None
    begun = [line["begin"] for line in folder.lines() if "begin" in line]
    return MarketForm.from_json(begun[-1]["form"]) if begun else None


def _nothing(account: Account, line: Line) -> None:
    """Show nothing."""


def refuse_live(data: str) -> None:
    """Refuse a live endpoint in `--data` or in the environment, and the key of a live account."""
    _refuse_address("--data", data if "://" in data else "")
    if data.lower().startswith(("alpaca", "ccxt")) and "live" in data.lower().replace(":", "-").split("-"):
        raise LiveAccount(f"--data {printable(data)} names a live account: {REMEDY}; --data alpaca has bars")
    if not data.lower().startswith("alpaca"):
        return
    for name in ADDRESSES:
        _refuse_address(name, os.environ.get(name, ""))
    for name in KEYS:
        if os.environ.get(name, "").strip().startswith(LIVE_KEY):
            raise LiveAccount(f"{name} holds the key of a live account (it begins with {LIVE_KEY}): {REMEDY}; take the "
                              "keys of the paper account, which begin with PK")  # fmt: skip


def _refuse_address(name: str, address: str) -> None:
    host = (urlsplit(address if "://" in address else f"https://{address}").hostname or "") if address else ""
    if host.endswith("alpaca.markets") and host not in PAPER_HOSTS:
        raise LiveAccount(f"{name} names {printable(host)}, the endpoint of live accounts: {REMEDY}; the paper "
                          "endpoint is https://paper-api.alpaca.markets")  # fmt: skip
