"""The live panel. It draws inside `write`, without a thread, so there are no races with the run or its workers."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from rookery.monitor.bottleneck import advise
from rookery.monitor.events import Event, RunState, printable_event
from rookery.monitor.formatting import (
    PARTS,
    chart,
    cluster_text,
    count,
    divide_cells,
    duration,
    episode_rate,
    number,
    percent,
    rate,
    score,
    settings_text,
    size,
    system_text,
)
from rookery.monitor.run_summary import ended_early, print_summary

SHORTEST_SECONDS = 0.25  # between two redraws for progress
SHARE = 0.01  # of one core that drawing may take
BURST_SECONDS = 0.1  # of drawing time that may be used at once

WIDEST = 120
CHART_ROWS = 3
LABEL = 11  # columns for the names at the left
METRIC = 9  # columns of a return
LOSS, LOSS_ROWS = 26, 3  # minimum columns of a loss with its name, and number of rows
COLOURS = {
    "env": "green", "policy": "blue", "learner": "magenta", "gpu": "red", "waiting": "yellow", "evaluation": "cyan",
    "other": "bright_black",
}  # fmt: skip
MEANS = "return and length: mean of the last 100"  # the words of the summary, the plot and the dashboard
SHORT = {"evaluation": "eval"}  # in the legend, for which there is little room
Part = tuple[int, list[Text]]  # of the panel: if the terminal is too low, those of the highest rank are removed first


class LivePanel:
    """Shows a run as a panel that is redrawn in place; the last one stays on the screen."""

    def __init__(
        self,
        total_steps: int | None = None,
        stream: TextIO | None = None,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Draw on `stream` (standard error), or on a rich `console` of the caller."""
        self.state = RunState(total_steps)
        self._console = console or Console(file=stream or sys.stderr, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._budget = RedrawBudget(clock)
        self._size = self._console.size
        self._streams = (sys.stdout, sys.stderr)
        self._redirected: list[tuple[logging.StreamHandler[Any], Any]] = []

    def write(self, event: Event) -> None:
        event = printable_event(event)
        self.state.add(event)
        if event.kind == "end":
            self.close()
            print_summary(event.values)
        elif event.kind == "start":
            self._open()
        elif self._live is not None and self._is_due(event):
            self._draw()

    def close(self) -> None:
        """Draw the last state, and restore the cursor, the streams and the log handlers."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.refresh()
        finally:
            live.stop()
            self._release()

    def leave_to_parent(self) -> None:
        """In a forked child: the output of a worker must not go through a panel."""
        if self._live is not None:
            self._live = None
            sys.stdout, sys.stderr = self._streams
            self._release()

    def _release(self) -> None:
        _open_panels.discard(self)
        atexit.unregister(self.close)
        for handler, stream in self._redirected:
            handler.setStream(stream)
        self._redirected.clear()

    def _is_due(self, event: Event) -> bool:
        """A long operation is always shown: the next event may come much later."""
        return event.kind == "doing" or self._budget.allows(urgent=event.kind != "progress")

    def _open(self) -> None:
        self.close()
        self._streams = (sys.stdout, sys.stderr)
        self._live = Live(
            RunPanel(self.state),
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # output to a file stays out of the panel
            redirect_stderr=sys.stderr.isatty(),
        )
        atexit.register(self.close)  # restores the cursor if the program ends with an exception
        _open_panels.add(self)
        self._live.start()
        self._redirect_log()
        self._draw()

    def _redirect_log(self) -> None:
        """Let log handlers that hold the original streams write above the panel, as `print` does."""
        handlers = logging.getLogger("rookery").handlers + logging.getLogger().handlers
        for handler in (each for each in handlers if isinstance(each, logging.StreamHandler)):
            for before, now in zip(self._streams, (sys.stdout, sys.stderr), strict=True):
                if handler.stream is before and now is not before:
                    self._redirected.append((handler, before))
                    handler.setStream(now)
                    break

    def _draw(self) -> None:
        assert self._live is not None
        with self._budget:
            if self._console.size != self._size:  # the old rows are wrapped, their positions unknown
                self._size = self._console.size
                self._console.clear()
            self._live.refresh()


_open_panels: set[LivePanel] = set()


def _leave_to_parent() -> None:
    for panel in list(_open_panels):
        panel.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class RedrawBudget:
    """Limits redraws to `SHARE` of one core on average, and allows a few at once."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._credit, self._counted = BURST_SECONDS, clock()
        self._drawn = -SHORTEST_SECONDS
        self._began = 0.0

    def allows(self, urgent: bool = False) -> bool:
        """Whether to draw now. An urgent redraw ignores the minimum interval, but not the budget."""
        now = self._clock()
        self._credit = min(BURST_SECONDS, self._credit + SHARE * (now - self._counted))
        self._counted = now
        return self._credit > 0 and (urgent or now - self._drawn >= SHORTEST_SECONDS)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._drawn = self._clock()
        self._credit -= self._drawn - self._began


# --- the layout, for the width and height of the terminal ----------------------------------------------------------


class RunPanel:
    """A rich renderable of `state`, which measures the screen each time it is drawn."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        lines = _fitting(list(_parts(self.state, width - 4)), console.height - 3)
        body = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
        body.no_wrap, body.overflow = True, "ellipsis"
        yield Panel(
            body, title=_title(self.state), title_align="left", subtitle=_subtitle(self.state), subtitle_align="right",
            border_style="cyan", width=width,
        )  # fmt: skip


def _fitting(parts: list[Part], rows: int) -> list[Text]:
    """The lines of the parts that fit into `rows`."""
    while len(parts) > 1 and sum(len(lines) for _, lines in parts) > rows:
        parts.remove(max(parts, key=lambda part: part[0]))
    return [line for _, lines in parts for line in lines]


def _parts(state: RunState, width: int) -> Iterator[Part]:
    """From top to bottom, each with its rank. Progress has rank 0 and is never removed."""
    cluster = cluster_text(state.values, state.shares, state.facts.get("cluster_dashboard"))
    yield 3, [_settings(state, width)]
    yield 10, [Text()]
    yield 0, _progress(state, width)
    yield 9, [Text()]
    yield 1, _episodes(state, width)
    yield 12, _episode_notes(state, width)
    yield 2, _evaluation(state)
    yield 11, _checkpoint(state)
    yield 6, _losses(state, width)
    yield 9, _rows("system", system_text(state.values, state.facts.get("cores")), width)
    yield 7, _rows("cluster", cluster, width)
    if state.shares:
        yield 7, [Text()]
        yield 4, _time(state, width)
        yield 5, _advice(state, width)
    if state.notes:
        yield 14, [Text()]
        for age, note in reversed(list(enumerate(reversed(state.notes)))):
            yield 11 + age if age else 8, [Text.assemble(("• ", "cyan"), note)]


def _row(name: str, *parts: str | Text | tuple[str, str]) -> Text:
    """A line with its name at the left."""
    return Text.assemble((f"{name:<{LABEL}}", "dim"), *parts)


def _title(state: RunState) -> Text:
    run, world = state.facts.get("run", "rookery"), state.facts.get("world", "")
    return Text.assemble((str(run), "bold cyan"), (f" · {world}" if world else "", "cyan"))


def _subtitle(state: RunState) -> Text:
    if state.end is not None:
        colour = "yellow" if ended_early(state.end) else "green"
        reason = str(state.end.get("reason") or "finished").splitlines()[0]  # not the traceback of a failure
        return Text(reason, f"bold {colour}")
    return Text(f"{state.doing} …", "bold yellow") if state.doing else Text("")


def _progress(state: RunState, width: int) -> list[Text]:
    values = state.values
    where = count(state.step) + (f" / {count(state.total)}" if state.ends_by_steps else " steps")
    speed = Text.assemble((rate(values.get("steps_per_second")), "bold"), " steps/s")
    speed.append(f"   {duration(state.seconds)} elapsed", "dim")
    if state.end is None and values.get("eta_seconds") is not None:
        speed.append(f"   {duration(values['eta_seconds'])} left", "dim")
    if state.facts.get("episodes"):
        episode = f"episode {count(values.get('episodes', 0))} / {count(state.facts['episodes'])}"
        where = f"{episode}   {where}" if len(episode) + len(where) + len(speed) + 6 <= width else episode
    done = state.done
    if done is None:
        return [Text.assemble((where, "bold"), "   ", speed)]
    metrics = f"  {percent(done):>5}"
    room = max(0, width - len(metrics))
    full = round(room * done)
    bar = Text.assemble(("━" * full, "green"), ("━" * (room - full), "bright_black"), (metrics, "bold"))
    return [bar, Text.assemble(where, " " * max(3, width - len(where) - len(speed)), speed)]


def _episodes(state: RunState, width: int) -> list[Text]:
    values, points = state.values, state.returns.points
    lines = [
        _row("return", (f"{number(values.get('episode/return')):<{METRIC}}", "bold")),
        _row("length", f"{number(values.get('episode/length')):<{METRIC}}"),
        _row("episodes", f"{count(values.get('episodes')):<{METRIC}}"),
    ]
    if len(points) < 2:
        return lines
    low, high = number(min(points)), number(max(points))
    margin = max(len(low), len(high))
    labels = [f"{high:>{margin}} ┤", *[" " * margin + " │"] * (CHART_ROWS - 2), f"{low:>{margin}} ┤"]
    curve = chart(points, width - LABEL - METRIC - margin - 4, CHART_ROWS)
    for line, label, row in zip(lines, labels, curve, strict=True):
        line.append(f"  {label}", "dim").append(row, "green")
    return lines


def _episode_notes(state: RunState, width: int) -> list[Text]:
    """What the figures above are means of, and how fast episodes end."""
    means = MEANS if state.values.get("episode/return") is not None else ""
    rates = ", ".join(episode_rate(state.values))
    notes = _rows("", list(filter(None, [means, rates and f"episodes: {rates}"])), width)
    for note in notes:
        note.stylize("dim")
    return notes


def _evaluation(state: RunState) -> list[Text]:
    latest, best = state.evaluation, state.best
    if latest is None:
        return []
    line = _row("evaluation", (score(latest.values, "±"), "bold"))
    line.append(f" at {count(latest.step)}", "dim")
    if best is latest:
        line.append("   the best so far", "green")
    elif best is not None:
        value = best.values.get("eval/return")
        is_lower = value is not None and value < latest.values.get("eval/return", value)
        line.append("   within noise of the best, " if is_lower else "   best ", "dim").append(number(value))
        line.append(f" at {count(best.step)}", "dim")
    return [line]


def _checkpoint(state: RunState) -> list[Text]:
    saved = state.checkpoint
    if saved is None:
        return []
    cost = f"  ({size(saved.values.get('bytes'))} in {duration(saved.values.get('seconds'))})"
    return [_row("saved", f"at {count(saved.step)}", (cost, "dim"))]


def _losses(state: RunState, width: int) -> list[Text]:
    """Names and values in as many equal columns as fit."""
    values = state.values
    shown = _with_prefix("loss/", values) | {
        name: values[name] for name in ("learning_rate", "updates") if name in values
    }
    shown |= {
        name: value for name, value in _with_prefix("episode/", values).items() if name not in ("return", "length")
    }
    shown |= _with_prefix("info/", values)
    columns = max(1, (width - LABEL) // LOSS)
    cell = max(0, width - LABEL) // columns
    cells = [_cell(name.replace("_", " "), value, cell) for name, value in shown.items()][: LOSS_ROWS * columns]
    rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
    return [_row("" if at else "losses", *row) for at, row in enumerate(rows)]


def _with_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _cell(name: str, value: object, width: int) -> Text:
    metric = number(value) if name != "updates" else count(value)
    gap = max(0, width - 3 - len(metric) - 1)
    return Text.assemble((f"{name[:gap]:<{gap}} ", "dim"), metric, "   ")


def _rows(name: str, texts: list[str], width: int) -> list[Text]:
    """In as many rows as it takes; a text is never divided."""
    rows: list[str] = []
    for text in texts:
        if rows and len(rows[-1]) + 3 + len(text) <= width - LABEL:
            rows[-1] += f"   {text}"
        else:
            rows.append(text)
    return [_row("" if at else name, row) for at, row in enumerate(rows)]


def _time(state: RunState, width: int) -> list[Text]:
    room = max(0, width - LABEL)
    parts = [part for part in PARTS if part != "gpu" or state.shares[part] > 0]  # a run on a CPU has no such part
    cells = divide_cells([state.shares[part] for part in parts], room)
    bar = [("█" * n, COLOURS[part]) for part, n in zip(parts, cells, strict=True)]
    metrics = [f"{SHORT.get(part, part)} {100 * state.shares[part]:.0f} %" for part in parts]
    gap = "   " if len("   ".join(metrics)) <= room else " "
    legend = Text(gap).join(Text(metric, COLOURS[part]) for part, metric in zip(parts, metrics, strict=True))
    return [_row("time", *bar), _row("", legend)]


def _advice(state: RunState, width: int) -> list[Text]:
    shares = {f"time/{part}": share for part, share in state.shares.items()}
    sentence = advise({**shares, "system/gpu": state.values.get("system/gpu")}, state.facts)
    return [Text(" " * LABEL + row, "italic") for row in textwrap.wrap(sentence, max(LABEL, width - LABEL))[:3]]


def _settings(state: RunState, width: int) -> Text:
    """Further apart where there is room; the first word is bold."""
    first, *others = words = settings_text(state.facts) or [""]
    between = "  ·  " if len("  ·  ".join(words)) <= width else " · "
    return Text.assemble((first, "bold"), *(part for word in others for part in ((between, "dim"), word)))
