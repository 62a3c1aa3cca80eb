"""The report of a study on the terminal: how far it is, and what it found."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from rookery.console import printable
from rookery.monitor.formatting import count, divide_cells, duration, number, percent
from rookery.studies.report.report import StudyReport
from rookery.studies.report.report_tables import (
    best_part,
    heading,
    importances_part,
    market_part,
    progress_part,
    trials_part,
)
from rookery.studies.storage.study_view import StudyView

BAR = 40  # cells of the bar of all trials
COLOURS = {"finished": "green", "running": "cyan", "failed": "red", "pruned": "yellow", "waiting": "bright_black"}
BAR_STATES = ("finished", "pruned", "failed", "running")
PALE = "bright_black"


def report_text(report: StudyReport, width: int = 100, top: int = 5) -> RenderableType:
    """The whole report; a blank line between its parts."""
    parts = [
        _headline(report),
        progress_part(report),
        best_part(report),
        market_part(report),
        importances_part(report),
        trials_part(report, width, top),
    ]
    shown = [part for part in parts if part is not None]
    lines: list[RenderableType] = [shown[0]]
    for part in shown[1:]:
        lines += [Text(""), part]
    return Group(*lines)


def status(report: StudyReport) -> str:
    """What the study is doing, in a word or two."""
    if report.figures.counts["running"]:
        return "running"
    if report.progress:
        return "verifying"
    return "complete" if report.figures.is_complete else "not running" if report.figures.begun else "no trial has begun"


def status_line(report: StudyReport) -> str:
    """The study in one line of plain text, for logs."""
    figures, best = report.figures, report.study.best
    counts = ", ".join(f"{figures.counts[state]:,} {state}" for state in figures.counts if figures.counts[state])
    value = [] if best is None else [f"best {number(best.value)} (trial {best.number})"]
    return " · ".join([report.study.name, status(report), counts or "no trials", *_pace(report), *value])


def _headline(report: StudyReport) -> RenderableType:
    figures = report.figures
    title = heading(printable(report.study.name), " · ".join([status(report), *_about(report.study)]))
    lines = [title, *([_bar(report)] if figures.n_trials else []), _counts(report)]
    pace = _pace(report)
    lines += [Text(" · ".join(pace))] if pace else []
    lines += [Text(f"failed {often:,} x: {printable(reason)}", "red") for reason, often in figures.failures]
    if figures.saved_seconds is not None:
        share = figures.saved_seconds / max(figures.saved_seconds + figures.trial_seconds, 1e-9)
        saved = f"pruning saved about {duration(figures.saved_seconds)} of training, {percent(share)} of all"
        lines.append(Text(saved, "yellow"))
    return Group(*lines)


def _about(study: StudyView) -> list[str]:
    config = study.config or {}
    named = [printable(config[key]) for key in ("world", "learner") if config.get(key)]
    goals = " and ".join("maximise" if maximised else "minimise" for maximised in study.directions)
    return [*named, f"{goals} the value" if len(study.directions) == 1 else f"{goals}: {len(study.directions)} values"]


def _bar(report: StudyReport) -> Text:
    figures = report.figures
    counts = [figures.counts[state] for state in BAR_STATES]  # type: ignore[index]
    total = max(figures.n_trials or 0, sum(counts), 1)
    cells = divide_cells([each / total for each in (*counts, total - sum(counts))], BAR)
    bar = Text()
    for state, width in zip((*BAR_STATES, "waiting"), cells, strict=True):
        bar.append("━" * width, COLOURS[state])
    return bar.append(f"  {figures.ended:,} of {figures.n_trials:,} trials")


def _counts(report: StudyReport) -> Text:
    counts = report.figures.counts
    texts = [Text(f"{counts[state]:,} {state}", COLOURS[state] if counts[state] else PALE) for state in counts]
    return Text("   ").join(texts)


def _pace(report: StudyReport) -> list[str]:
    """Trials an hour, the time that is left, and what was used."""
    figures = report.figures
    texts = [] if figures.trials_per_hour is None else [f"{number(figures.trials_per_hour)} trials an hour"]
    if figures.eta_seconds is not None:
        texts.append(f"ETA {duration(figures.eta_seconds)}")
    if figures.busy_seconds:
        limit = figures.timeout_seconds
        share = f" of {duration(limit)} ({percent(figures.busy_seconds / limit)})" if limit else ""
        texts.append(f"{duration(figures.busy_seconds)}{share} used")
    return [*texts, f"{count(figures.steps)} steps"] if figures.steps else texts
