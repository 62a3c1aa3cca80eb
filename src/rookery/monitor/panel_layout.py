"""The panel as text: what is known of a run, laid out for the width and height there are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from rookery.monitor.bottleneck import advise
from rookery.monitor.formatting import PARTS, count, duration, number, percent, rate, score, setting, size
from rookery.monitor.run_state import RunState
from rookery.monitor.run_summary import is_cut_short
from rookery.monitor.text_charts import chart, shared_out

WIDEST = 120
CHART_ROWS = 3
LABEL = 11  # columns of the names at the left
FIGURE = 9  # columns of a return
LOSS, LOSS_ROWS = 26, 3  # least columns of a loss with its name, and how many rows of them there are
COLOURS = {"env": "green", "policy": "blue", "learner": "magenta", "waiting": "yellow", "other": "bright_black"}
Line = Text


@dataclass(frozen=True)
class PanelPart:
    """Some lines of the panel; where rows are short, those of the highest `rank` go first."""

    rank: int
    lines: list[Line]


class RunPanel:
    """A rich renderable of `picture`, which measures the screen anew each time it is drawn."""

    def __init__(self, picture: RunState) -> None:
        self.picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        lines = fitted(list(_parts(self.picture, width - 4)), console.height - 3)
        body = Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
        body.no_wrap, body.overflow = True, "ellipsis"
        yield Panel(
            body,
            title=_title(self.picture),
            title_align="left",
            subtitle=_subtitle(self.picture),
            subtitle_align="right",
            border_style="cyan",
            width=width,
        )


def fitted(parts: list[PanelPart], rows: int) -> list[Line]:
    """The lines of the parts that fit into so many rows."""
    kept = list(parts)
    while len(kept) > 1 and sum(len(part.lines) for part in kept) > rows:
        kept.remove(max(kept, key=lambda part: part.rank))
    return [line for part in kept for line in part.lines]


def _parts(picture: RunState, width: int) -> Iterator[PanelPart]:
    """From top to bottom, each with its rank: first the small print and the empty lines go, progress never."""
    yield PanelPart(3, [_join("  ·  ", setting(picture.facts))])
    yield PanelPart(10, [Line()])
    yield PanelPart(0, _progress(picture, width))
    yield PanelPart(9, [Line()])
    yield PanelPart(1, _episodes(picture, width))
    yield PanelPart(2, _evaluation(picture))
    yield PanelPart(11, _checkpoint(picture))
    yield PanelPart(6, _losses(picture, width))
    if picture.shares:
        yield PanelPart(7, [Line()])
        yield PanelPart(4, _time(picture, width))
        yield PanelPart(5, _advice(picture, width))
    if picture.notes:
        yield PanelPart(14, [Line()])
        for age, note in reversed(list(enumerate(reversed(picture.notes)))):
            yield PanelPart(11 + age if age else 8, [Line.assemble(("• ", "cyan"), note)])


def _title(picture: RunState) -> Text:
    run, world = picture.facts.get("run", "rookery"), picture.facts.get("world", "")
    return Text.assemble((str(run), "bold cyan"), (f" · {world}" if world else "", "cyan"))


def _subtitle(picture: RunState) -> Text:
    if picture.end is not None:
        colour = "yellow" if is_cut_short(picture.end) else "green"
        reason = str(picture.end.get("reason") or "finished").splitlines()[0]  # not the traceback of a failure
        return Text(reason, f"bold {colour}")
    return Text(f"{picture.doing} …", "bold yellow") if picture.doing else Text("")


def _progress(picture: RunState, width: int) -> list[Line]:
    values = picture.values
    where = count(picture.step) + (f" / {count(picture.total)}" if picture.total else " steps")
    speed = Line.assemble((rate(values.get("steps_per_second")), "bold"), " steps/s")
    speed.append(f"   {duration(picture.seconds)} gone", "dim")
    if picture.end is None and values.get("eta_seconds") is not None:
        speed.append(f"   {duration(values['eta_seconds'])} left", "dim")
    done = picture.done
    if done is None:
        return [Line.assemble((where, "bold"), "   ", speed)]
    figures = f"  {percent(done):>5}"
    room = max(0, width - len(figures))
    full = round(room * done)
    bar = Line.assemble(("━" * full, "green"), ("━" * (room - full), "bright_black"), (figures, "bold"))
    return [bar, Line.assemble(where, " " * max(3, width - len(where) - len(speed)), speed)]


def _episodes(picture: RunState, width: int) -> list[Line]:
    values, points = picture.values, picture.returns.points
    named = [
        ("return", number(values.get("episode/return")), "bold"),
        ("length", number(values.get("episode/length")), ""),
        ("episodes", count(values.get("episodes")), ""),
    ]
    lines = [
        Line.assemble((f"{name:<{LABEL}}", "dim"), (f"{figure:<{FIGURE}}", style)) for name, figure, style in named
    ]
    if len(points) < 2:
        return lines
    low, high = number(min(points)), number(max(points))
    margin = max(len(low), len(high))
    labels = [high, *[""] * (CHART_ROWS - 2), low]
    curve = chart(points, width - LABEL - FIGURE - margin - 3, CHART_ROWS)
    for line, label, row in zip(lines, labels, curve, strict=True):
        line.append(f"  {label:>{margin}} ", "dim").append(row, "green")
    return lines


def _evaluation(picture: RunState) -> list[Line]:
    latest, best = picture.evaluation, picture.best
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


def _checkpoint(picture: RunState) -> list[Line]:
    saved = picture.checkpoint
    if saved is None:
        return []
    cost = f"  ({size(saved.values.get('bytes'))} in {duration(saved.values.get('seconds'))})"
    return [Line.assemble((f"{'saved':<{LABEL}}", "dim"), f"at {count(saved.step)}", (cost, "dim"))]


def _losses(picture: RunState, width: int) -> list[Line]:
    """Names and figures in as many equal columns as there is room for."""
    values = picture.values
    shown = {name.removeprefix("loss/"): value for name, value in values.items() if name.startswith("loss/")}
    shown |= {name: values[name] for name in ("learning_rate", "updates") if name in values}
    shown |= {
        name.removeprefix("episode/"): value
        for name, value in values.items()
        if name.startswith("episode/") and name not in ("episode/return", "episode/length")
    }
    columns = max(1, (width - LABEL) // LOSS)
    cell = max(0, width - LABEL) // columns
    cells = [_cell(name.replace("_", " "), value, cell) for name, value in shown.items()][: LOSS_ROWS * columns]
    rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
    labels = ["losses"] + [""] * len(rows)
    return [Line.assemble((f"{label:<{LABEL}}", "dim"), *row) for label, row in zip(labels, rows, strict=False)]


def _cell(name: str, value: object, width: int) -> Line:
    figure = number(value) if name != "updates" else count(value)
    gap = max(0, width - 3 - len(figure) - 1)
    return Line.assemble((f"{name[:gap]:<{gap}} ", "dim"), figure, "   ")


def _time(picture: RunState, width: int) -> list[Line]:
    room = max(0, width - LABEL)
    cells = shared_out([picture.shares[part] for part in PARTS], room)
    bar = [("█" * n, COLOURS[part]) for part, n in zip(PARTS, cells, strict=True)]
    figures = [f"{part} {100 * picture.shares[part]:.0f} %" for part in PARTS]
    gap = "   " if len("   ".join(figures)) <= room else " "
    coloured = (Line(figure, COLOURS[part]) for part, figure in zip(PARTS, figures, strict=True))
    legend = Line(gap).join(coloured)
    return [Line.assemble((f"{'time':<{LABEL}}", "dim"), *bar), Line.assemble(" " * LABEL, legend)]


def _advice(picture: RunState, width: int) -> list[Line]:
    sentence = advise({f"time/{part}": share for part, share in picture.shares.items()}, picture.facts)
    return [Line(" " * LABEL + row, "italic") for row in textwrap.wrap(sentence, max(LABEL, width - LABEL))[:2]]


def _join(between: str, words: list[str]) -> Line:
    """The words on one line, the first of them bold."""
    first, *others = words or [""]
    return Line.assemble((first, "bold"), *(part for word in others for part in ((between, "dim"), word)))
