"""The layout of the live panel, for the width and height of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from rookery.monitor.bottleneck import advise
from rookery.monitor.cluster_text import cluster_text
from rookery.monitor.formatting import (
    PARTS,
    count,
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
from rookery.monitor.run_state import RunState
from rookery.monitor.run_summary import ended_early
from rookery.monitor.text_charts import chart, divide_cells

WIDEST = 120
CHART_ROWS = 3
LABEL = 11  # columns for the names at the left
METRIC = 9  # columns of a return
LOSS, LOSS_ROWS = 26, 3  # minimum columns of a loss with its name, and number of rows
COLOURS = {
    "env": "green", "policy": "blue", "learner": "magenta", "gpu": "red", "waiting": "yellow", "evaluation": "cyan",
    "other": "bright_black",
}  # fmt: skip
SHORT = {"evaluation": "eval"}  # in the legend, for which there is little room
Line = Text


@dataclass(frozen=True)
class PanelPart:
    """Some lines of the panel. If the terminal is too low, parts of the highest `rank` are removed first."""

    rank: int
    lines: list[Line]


class RunPanel:
    """A rich renderable of `state`, which measures the screen each time it is drawn."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        lines = fit_parts(list(_parts(self.state, width - 4)), console.height - 3)
        body = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
        body.no_wrap, body.overflow = True, "ellipsis"
        yield Panel(
            body,
            title=_title(self.state),
            title_align="left",
            subtitle=_subtitle(self.state),
            subtitle_align="right",
            border_style="cyan",
            width=width,
        )


def fit_parts(parts: list[PanelPart], rows: int) -> list[Line]:
    """The lines of the parts that fit into `rows`."""
    kept = list(parts)
    while len(kept) > 1 and sum(len(part.lines) for part in kept) > rows:
        kept.remove(max(kept, key=lambda part: part.rank))
    return [line for part in kept for line in part.lines]


def _parts(state: RunState, width: int) -> Iterator[PanelPart]:
    """From top to bottom, each with its rank. Progress has rank 0 and is never removed."""
    yield PanelPart(3, [_settings(state, width)])
    yield PanelPart(10, [Line()])
    yield PanelPart(0, _progress(state, width))
    yield PanelPart(9, [Line()])
    yield PanelPart(1, _episodes(state, width))
    yield PanelPart(12, _episode_rate(state))
    yield PanelPart(2, _evaluation(state))
    yield PanelPart(11, _checkpoint(state))
    yield PanelPart(6, _losses(state, width))
    yield PanelPart(9, _system(state, width))
    yield PanelPart(7, _cluster(state, width))
    if state.shares:
        yield PanelPart(7, [Line()])
        yield PanelPart(4, _time(state, width))
        yield PanelPart(5, _advice(state, width))
    if state.notes:
        yield PanelPart(14, [Line()])
        for age, note in reversed(list(enumerate(reversed(state.notes)))):
            yield PanelPart(11 + age if age else 8, [Line.assemble(("• ", "cyan"), note)])


def _title(state: RunState) -> Text:
    run, world = state.facts.get("run", "rookery"), state.facts.get("world", "")
    return Text.assemble((str(run), "bold cyan"), (f" · {world}" if world else "", "cyan"))


def _subtitle(state: RunState) -> Text:
    if state.end is not None:
        colour = "yellow" if ended_early(state.end) else "green"
        reason = str(state.end.get("reason") or "finished").splitlines()[0]  # not the traceback of a failure
        return Text(reason, f"bold {colour}")
    return Text(f"{state.doing} …", "bold yellow") if state.doing else Text("")


def _progress(state: RunState, width: int) -> list[Line]:
    values = state.values
    where = count(state.step) + (f" / {count(state.total)}" if state.ends_by_steps else " steps")
    speed = Line.assemble((rate(values.get("steps_per_second")), "bold"), " steps/s")
    speed.append(f"   {duration(state.seconds)} elapsed", "dim")
    if state.end is None and values.get("eta_seconds") is not None:
        speed.append(f"   {duration(values['eta_seconds'])} left", "dim")
    if state.facts.get("episodes"):
        episode = f"episode {count(values.get('episodes', 0))} / {count(state.facts['episodes'])}"
        where = f"{episode}   {where}" if len(episode) + len(where) + len(speed) + 6 <= width else episode
    done = state.done
    if done is None:
        return [Line.assemble((where, "bold"), "   ", speed)]
    metrics = f"  {percent(done):>5}"
    room = max(0, width - len(metrics))
    full = round(room * done)
    bar = Line.assemble(("━" * full, "green"), ("━" * (room - full), "bright_black"), (metrics, "bold"))
    return [bar, Line.assemble(where, " " * max(3, width - len(where) - len(speed)), speed)]


def _episodes(state: RunState, width: int) -> list[Line]:
    values, points = state.values, state.returns.points
    named = [
        ("return", number(values.get("episode/return")), "bold"),
        ("length", number(values.get("episode/length")), ""),
        ("episodes", count(values.get("episodes")), ""),
    ]
    lines = [
        Line.assemble((f"{name:<{LABEL}}", "dim"), (f"{metric:<{METRIC}}", style)) for name, metric, style in named
    ]
    if len(points) < 2:
        return lines
    low, high = number(min(points)), number(max(points))
    margin = max(len(low), len(high))
    labels = [high, *[""] * (CHART_ROWS - 2), low]
    curve = chart(points, width - LABEL - METRIC - margin - 3, CHART_ROWS)
    for line, label, row in zip(lines, labels, curve, strict=True):
        line.append(f"  {label:>{margin}} ", "dim").append(row, "green")
    return lines


def _episode_rate(state: RunState) -> list[Line]:
    rates = episode_rate(state.values)
    return [Line(" " * LABEL + ", ".join(rates), "dim")] if rates else []


def _evaluation(state: RunState) -> list[Line]:
    latest, best = state.evaluation, state.best
    if latest is None:
        return []
    line = Line.assemble((f"{'evaluation':<{LABEL}}", "dim"), (score(latest.values, "±"), "bold"))
    line.append(f" at {count(latest.step)}", "dim")
    if best is latest:
        line.append("   the best so far", "green")
    elif best is not None:
        line.append("   best ", "dim").append(number(best.values.get("eval/return")))
        line.append(f" at {count(best.step)}", "dim")
    return [line]


def _checkpoint(state: RunState) -> list[Line]:
    saved = state.checkpoint
    if saved is None:
        return []
    cost = f"  ({size(saved.values.get('bytes'))} in {duration(saved.values.get('seconds'))})"
    return [Line.assemble((f"{'saved':<{LABEL}}", "dim"), f"at {count(saved.step)}", (cost, "dim"))]


def _losses(state: RunState, width: int) -> list[Line]:
    """Names and values in as many equal columns as fit."""
    values = state.values
    shown = {name.removeprefix("loss/"): value for name, value in values.items() if name.startswith("loss/")}
    shown |= {name: values[name] for name in ("learning_rate", "updates") if name in values}
    shown |= {
        name.removeprefix("episode/"): value
        for name, value in values.items()
        if name.startswith("episode/") and name not in ("episode/return", "episode/length")
    }
    shown |= {name.removeprefix("info/"): value for name, value in values.items() if name.startswith("info/")}
    columns = max(1, (width - LABEL) // LOSS)
    cell = max(0, width - LABEL) // columns
    cells = [_cell(name.replace("_", " "), value, cell) for name, value in shown.items()][: LOSS_ROWS * columns]
    rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
    labels = ["losses"] + [""] * len(rows)
    return [Line.assemble((f"{label:<{LABEL}}", "dim"), *row) for label, row in zip(labels, rows, strict=False)]


def _cell(name: str, value: object, width: int) -> Line:
    metric = number(value) if name != "updates" else count(value)
    gap = max(0, width - 3 - len(metric) - 1)
    return Line.assemble((f"{name[:gap]:<{gap}} ", "dim"), metric, "   ")


def _system(state: RunState, width: int) -> list[Line]:
    return _rows("system", system_text(state.values, state.facts.get("cores")), width)


def _cluster(state: RunState, width: int) -> list[Line]:
    return _rows("cluster", cluster_text(state.values, state.shares, state.facts.get("cluster_dashboard")), width)


def _rows(name: str, texts: list[str], width: int) -> list[Line]:
    """In as many rows as it takes; a text is never divided."""
    rows: list[str] = []
    for text in texts:
        if rows and len(rows[-1]) + 3 + len(text) <= width - LABEL:
            rows[-1] += f"   {text}"
        else:
            rows.append(text)
    labels = [name] + [""] * len(rows)
    return [Line.assemble((f"{label:<{LABEL}}", "dim"), row) for label, row in zip(labels, rows, strict=False)]


def _time(state: RunState, width: int) -> list[Line]:
    room = max(0, width - LABEL)
    parts = [part for part in PARTS if part != "gpu" or state.shares[part] > 0]  # a run on a CPU has no such part
    cells = divide_cells([state.shares[part] for part in parts], room)
    bar = [("█" * n, COLOURS[part]) for part, n in zip(parts, cells, strict=True)]
    metrics = [f"{SHORT.get(part, part)} {100 * state.shares[part]:.0f} %" for part in parts]
    gap = "   " if len("   ".join(metrics)) <= room else " "
    coloured = (Line(metric, COLOURS[part]) for part, metric in zip(parts, metrics, strict=True))
    legend = Line(gap).join(coloured)
    return [Line.assemble((f"{'time':<{LABEL}}", "dim"), *bar), Line.assemble(" " * LABEL, legend)]


def _advice(state: RunState, width: int) -> list[Line]:
    shares = {f"time/{part}": share for part, share in state.shares.items()}
    sentence = advise({**shares, "system/gpu": state.values.get("system/gpu")}, state.facts)
    return [Line(" " * LABEL + row, "italic") for row in textwrap.wrap(sentence, max(LABEL, width - LABEL))[:2]]


def _settings(state: RunState, width: int) -> Line:
    """Further apart where there is room; the first word is bold."""
    first, *others = words = settings_text(state.facts) or [""]
    between = "  ·  " if len("  ·  ".join(words)) <= width else " · "
    return Line.assemble((first, "bold"), *(part for word in others for part in ((between, "dim"), word)))
