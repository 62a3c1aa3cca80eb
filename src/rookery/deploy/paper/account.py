"""A paper account: what it holds follows from its log alone.

One line of the log is one bar: the bar itself, the fills of the orders of the line before, what the account is worth,
and the orders for the next bar. The line is the only thing that makes an order exist. A process that is killed before
it is on the disk has ordered nothing; one that is killed after it finds its orders there, and waits for the next bar.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np

from rookery.data.dataset import Dataset
from rookery.deploy.paper.account_files import AccountLog, Line
from rookery.deploy.paper.book import Book
from rookery.deploy.paper.paper_world import MarketForm, PaperWorld, form_of, rules_of
from rookery.deploy.paper.traded_agents import (
    AccountSegment,
    AccountState,
    Succession,
    TradedAgent,
    TradedAgents,
    action_array,
    new_player,
    plain_action,
    rules,
)
from rookery.errors import DataError, KillSwitch
from rookery.training.backtest.recording import check_spaces

Handover = Literal["keep", "close"]
ID_LETTERS = 24


class Account:
    """An account of one alias of a registry, or of a run.

    Args:
        agents: Who trades.
        log: Its log. If it has lines, the account continues after them.
        dataset: The bars so far, and maybe more.
        max_drawdown: The part of its highest value that the account may lose.
        handover: What happens to positions when another agent takes over: "keep" hands them over if both have the same
            rules, and closes them otherwise; "close" closes them always.
    """

    def __init__(
        self, agents: TradedAgents, log: AccountLog, dataset: Dataset, max_drawdown: float = 1.0,
        handover: Handover = "keep",
    ) -> None:  # fmt: skip
        self.agents, self.log, self._dataset = agents, log, dataset
        self._max_drawdown, self._handover = max_drawdown, handover
        self.state = AccountState()
        self.segment: AccountSegment | None = None
        self.succession = Succession(agents)
        self._wanted: TradedAgent | None = None  # who should take over at this bar
        for line in log.lines[1:]:
            self._replay(line)

    @property
    def version(self) -> int | None:
        """The number of the agent that trades."""
        return None if self.segment is None else self.segment.traded.number

    def extend(self, dataset: Dataset) -> None:
        """More bars have come."""
        self._dataset = dataset
        if self.segment is not None:
            made = self.segment.world.build(dataset)
            for book in self.segment.books:
                book.extend(made)

    # --- a bar --------------------------------------------------------------------------------------------------

    def on_bar(self, time: int, bars: dict[str, list[float | None]], missed: bool = False) -> Line:
        """Fill the orders that wait, value the account, decide, and write the line. `missed`: a later bar is known
        already, so that nothing can be ordered. A KillSwitch after a line that ends trading."""
        # Once a bar: a promotion may happen at any moment.
        self._wanted = self.succession.wanted(self.segment, self._dataset, time)
        line: Line = {"kind": "bar", "time": time, "bars": bars, **self._stepped(time)}
        reason = self._reason_to_stop(line)
        line["closing"] = self._closing_after(line, reason)
        begin = None if reason else self._begin_block(line)
        if begin is not None:
            line |= {"begin": begin, "closing": None, "equities": begin["balances"]}
            line["equity"] = float(sum(begin["balances"]))
            line["peak"] = max(line["peak"], line["equity"])
        line["version"] = self._version_after(line)
        self._take_over(line)
        line |= self._ordered(time, line, missed)
        self.log.append(line)
        self._remember(line)
        self.finish_closing()
        return line

    def kill(self, kind: str, why: str) -> None:
        """Stop trading. Orders that wait are cancelled; what is held stays, as there is no price to sell at."""
        books = [] if self.segment is None else self.segment.books
        line = {
            "kind": "kill", "time": self.state.time, "reason": kind, "why": why,
            "cancelled": sorted(self.state.orders.values()),
            "actions": [None if book.row is None else plain_action(book.hold_action()) for book in books],
        }  # fmt: skip
        self.log.append(line)
        self._remember(line)

    def resume_after_kill(self) -> None:
        """Trade again. The drawdown counts from here."""
        if self.state.killed is not None:
            line = {"kind": "resume", "time": self.state.time}
            self.log.append(line)
            self._remember(line)

    def finish_closing(self) -> None:
        """Once nothing is held any more, a kill-switch has done its work: also one that a killed process had begun."""
        closing = self.state.closing
        if self.state.killed is not None or closing is None or closing["for"] != "kill":
            return
        lost = closing["reason"] == "account-lost"
        assert self.segment is not None
        if lost or not any(book.positions.any() for book in self.segment.books):
            self.kill(closing["reason"], closing["why"])
            raise KillSwitch(closing["why"], closing["reason"])

    # --- the parts of a line ------------------------------------------------------------------------------------

    def _stepped(self, time: int) -> Line:
        """Step the books that have a bar now."""
        entries: list[Any] = []
        fills: list[Line] = []
        for number, book in enumerate(self.segment.books if self.segment else ()):
            if book.row is None or book.row_at(time) is None:
                entries.append(None)
                continue
            if book.row_at(time) != book.row + 1:
                raise DataError(f"{', '.join(book.symbols)}: a bar before {time} was not traded on")
            before = book.positions
            entries.append(book.step(action_array(self.state.actions[number]), self.state.closing is not None))
            fills += self._fills(book, before)
        equities = [
            known if entry is None else entry["equity"]
            for entry, known in zip(entries, self.state.equities, strict=True)
        ]
        equity = float(sum(equities))
        peak = max(self.state.peak, equity)
        return {"books": entries, "fills": fills, "equity": equity, "peak": peak, "equities": equities}

    def _fills(self, book: Book, before: np.ndarray) -> list[Line]:
        """What the step has bought and sold."""
        traded = book.positions - before
        return [
            {"order": self.state.orders.get(symbol), "symbol": symbol, "units": float(units), "price": float(price)}
            for symbol, units, price in zip(book.symbols, traded, book.opens(), strict=True)
            if units != 0
        ]

    def _reason_to_stop(self, line: Line) -> tuple[str, str] | None:
        closing = self.state.closing
        if closing is not None and closing["for"] == "kill":
            return closing["reason"], closing["why"]
        if any(entry is not None and entry["terminated"] for entry in line["books"]):
            return "account-lost", f"the account is lost: {line['equity']:,.2f} are left"
        drawdown = 1.0 - line["equity"] / line["peak"] if line["peak"] > 0 else 0.0
        if drawdown > self._max_drawdown:
            return "drawdown", f"the drawdown is {drawdown:.2%}, and {self._max_drawdown:.2%} are allowed"
        return None

    def _closing_after(self, line: Line, reason: tuple[str, str] | None) -> dict[str, Any] | None:
        if reason is not None:
            return {"for": "kill", "reason": reason[0], "why": reason[1]}
        wanted = self._wanted
        if wanted is None or self.segment is None:
            return None
        if self._handover == "keep" and rules(wanted, self._dataset) == self.segment.rules:
            return None
        return {"for": "handover", "version": wanted.number}

    def _begin_block(self, line: Line) -> Line | None:
        """What a new segment is begun with, if one begins at this bar: at the first, and at a handover with nothing
        held."""
        if self.segment is None:
            wanted = self._wanted
            if wanted is None:
                return None
            form = form_of(wanted.config)
            made = PaperWorld(wanted.config, form).build(self._dataset)
            check_spaces(wanted.config.world, made, wanted.agent)
            count = len(PaperWorld(wanted.config, form).books)
            balances = [float(made.values["initial_balance"])] * count
        elif line["closing"] is not None and not any(book.positions.any() for book in self.segment.books):
            wanted = self._wanted
            assert wanted is not None
            form, balances = form_of(wanted.config), line["equities"]
        else:
            return None
        return {"version": wanted.number, "form": form.as_json(), "balances": balances}

    def _version_after(self, line: Line) -> int | None:
        if "begin" in line:
            return line["begin"]["version"]
        wanted = self._wanted if line["closing"] is None else None
        return self.version if wanted is None else wanted.number

    def _take_over(self, line: Line) -> None:
        """Begin a segment, or let another agent continue this one, as the line says."""
        if "begin" in line:
            self._begin(line["begin"])
        elif self.segment is not None and line["version"] != self.version:
            traded = self.succession.agent(line["version"])
            self.segment.traded, self.segment.player = traded, new_player(traded, len(self.segment.books))
        if self.segment is not None:
            for book, balance in zip(self.segment.books, self.segment.balances, strict=True):
                if book.row is None and book.row_at(line["time"]) is not None:
                    book.begin(line["time"], balance)

    def _begin(self, begin: Line) -> None:
        traded = self.succession.agent(begin["version"])
        world = PaperWorld(traded.config, MarketForm.from_json(begin["form"]))
        made = world.build(self._dataset)
        books = [Book(made, block, symbols) for block, symbols in enumerate(world.books)]
        own = rules_of(made, world.form)
        self.segment = AccountSegment(
            traded, world, books, own, new_player(traded, len(books)), list(begin["balances"])
        )
        self.state.actions = [None] * len(books)

    def _ordered(self, time: int, line: Line, missed: bool) -> Line:
        """The actions of all books with a bar now, and the orders that they are."""
        assert self.segment is not None
        books = self.segment.books
        now = [number for number, book in enumerate(books) if book.row is not None and book.row == book.row_at(time)]
        chosen = self._act(now)
        actions: list[Any] = [None] * len(books)
        orders: list[Line] = []
        for number, action in zip(now, chosen, strict=True):
            book = books[number]
            if missed:
                actions[number] = plain_action(book.hold_action())
                continue
            actions[number] = plain_action(book.closing_action() if line["closing"] is not None else action)
            for symbol, wanted in zip(book.symbols, np.atleast_1d(actions[number]).tolist(), strict=True):
                orders.append({"id": self._order_id(time, symbol), "symbol": symbol, "action": wanted})
        return {"missed": missed, "actions": actions, "orders": orders}

    def _act(self, now: list[int]) -> Any:
        """What the agent chooses. It sees every bar, so that a recurrent one remembers it."""
        assert self.segment is not None
        if not now:
            return ()
        for number in now:
            self.segment.books[number].check()
        observations = np.array([self.segment.books[number].observation for number in now])
        return self.segment.player.act(observations, np.array(now))

    def _order_id(self, time: int, symbol: str) -> str:
        """The same for the same order, in any process and however often it is computed."""
        text = f"{self.agents.name}|{time}|{symbol}"
        return hashlib.sha256(text.encode()).hexdigest()[:ID_LETTERS]

    # --- from lines to the state ----------------------------------------------------------------------------------

    def _replay(self, line: Line) -> None:
        """Do again what a line says, and compare."""
        if line["kind"] == "bar":
            found = self._stepped(line["time"])
            for name in ("books", "fills"):
                if self.segment is not None and line[name] != found[name]:
                    raise DataError(
                        f"{self.log.path}: line {line['seq'] + 1}: {name} is {line[name]!r:.200}, and the kernel "
                        f"computes {found[name]!r:.200}: the code has changed"
                    )
            self._take_over(line)
            if self.segment is not None and self.segment.traded.agent.policy.memory_size:
                self._act([k for k, action in enumerate(line["actions"]) if action is not None])
        self._remember(line)

    def _remember(self, line: Line) -> None:
        state = self.state
        if line["kind"] == "resume":
            state.killed, state.peak, state.closing = None, state.equity, None
            return
        for number, action in enumerate(line["actions"]):
            if action is not None:
                state.actions[number] = action
        if line["kind"] == "kill":
            state.killed, state.orders = {"reason": line["reason"], "why": line["why"]}, {}
            return
        state.time, state.closing, state.bars = line["time"], line["closing"], state.bars + 1
        state.equities, state.peak = list(line["equities"]), line["peak"]
        state.orders = {**state.orders, **{order["symbol"]: order["id"] for order in line["orders"]}}
        if line["missed"]:
            state.orders = {}
