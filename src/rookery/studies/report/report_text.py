"""The report of a study on the terminal: how far it is, and what it found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rookery import printing
from rookery.console import printable
from rookery.errors import RookeryError
from rookery.monitor.formatting import count, divide_cells, duration, number, percent, plural, rate
from rookery.studies.report.report import FOLD, StudyReport
from rookery.studies.report.study_figures import study_figures
from rookery.studies.storage.study_folder import study_folders
from rookery.studies.storage.study_view import StudyView, TrialView, open_study

BAR = 40  # cells of the bar of all trials
COLOURS = {"finished": "green", "running": "cyan", "failed": "red", "pruned": "yellow", "waiting": "bright_black"}
BAR_STATES = ("finished", "pruned", "failed", "running")
HEADINGS = ("study", "world", "learner", "trials>", "running>", "failed>", "best value>", "verified>", "last trial")
IMPORTANCE_BAR = 24  # cells
FEW_SETTINGS = 6  # that are shown in one column
ENOUGH = 50  # trials for importances to rely on
SHOWN_IMPORTANCES, SHOWN_RUNS, SHOWN_FRONT = 8, 8, 10
METHOD_NAMES = {"ped-anova": "PED-ANOVA", "fanova": "fANOVA"}
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


def table(studies_dir: str | Path = "studies") -> list[dict[str, Any]]:
    """One row per study, by name; `error` says why a study cannot be read."""
    return [_row(folder) for folder in study_folders(studies_dir)]


def print_table(rows: list[dict[str, Any]]) -> None:
    from rookery import printing

    shown = printing.table("", *HEADINGS)
    for row in (row for row in rows if not row["error"]):
        total = f"{row['ended']:,}" + (f" of {row['n_trials']:,}" if row["n_trials"] else "")
        cells = [row["study"], row["world"] or "-", row["learner"] or "-", total, f"{row['running']:,}"]
        cells += [f"{row['failed']:,}", value_text(row["best_value"]), value_text(row["verified_value"])]
        shown.add_row(*cells, row["last"] or "-")
    out = printing.console()
    if shown.row_count:
        printing.print_table(out, shown)
    for row in (row for row in rows if row["error"]):
        out.print(f"{row['study']}: {row['error']}", soft_wrap=True)


def _row(folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"study": printable(folder.name), "path": str(folder), "error": None}
    try:
        study = open_study(folder)
    except RookeryError as error:
        return {**row, "error": printable(error)}
    figures, config = study_figures(study), study.config or {}
    best, verified = study.best, study.best_verified
    moments = [moment for trial in study.trials for moment in (trial.started, trial.ended) if moment is not None]
    return {
        **row,
        "world": None if config.get("world") is None else printable(config["world"]),
        "learner": None if config.get("learner") is None else printable(config["learner"]),
        "ended": figures.ended,
        "n_trials": figures.n_trials,
        **{str(state): count for state, count in figures.counts.items()},
        "best_value": None if best is None else best.value,
        "verified_value": None if verified is None else verified.iqm,
        "last": max(moments).isoformat(sep=" ", timespec="minutes") if moments else None,
    }


def heading(title: str, note: str = "") -> Text:
    """The first line of a part of the report."""
    return Text.assemble((title, "bold"), (f"  {note}" if note else "", PALE))


def value_text(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """
    >>> value_text(497.3, (490.0, 500.0)), value_text(float("inf")), value_text(None)
    ('497.3 [490, 500]', 'inf', '-')
    """
    if value is None:
        return "-"
    text = number(value) if math.isfinite(value) else f"{value:g}"
    return text if interval is None else f"{text} [{number(interval[0])}, {number(interval[1])}]"


def setting_text(value: Any) -> str:
    """
    >>> setting_text(0.00030123), setting_text([64, 64]), setting_text(True), setting_text(2048), setting_text("relu")
    ('0.0003012', '[64, 64]', 'true', '2048', 'relu')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else printable(value)


def best_part(report: StudyReport) -> RenderableType | None:
    """The trial to use: its value when it was tuned beside that with held-out seeds, and its settings."""
    study, trial = report.study, report.study.chosen
    if trial is None:
        return Text("no trial has finished with a finite value", PALE) if report.figures.ended else None
    verified = study.verified.get(trial.number)
    open_note = "not verified with held-out seeds" if study.config is not None else ""  # nor will those of others be
    title = heading(f"best trial: {trial.number}", "verified with held-out seeds" if verified else open_note)
    values = printing.table("", "", "value>", "95 % interval", "of")
    values.add_row("tuning", value_text(trial.value), _interval(trial.interval), _parts_of(trial))
    if verified is not None:
        seeds = plural(len(verified.values), "held-out seed")
        values.add_row(Text("held-out", "green"), value_text(verified.iqm), _interval(verified.interval), seeds)
    for place, other in enumerate(trial.values[1:], start=2):
        values.add_row(f"objective {place}", value_text(other), "", "")
    other_best = study.best
    if other_best is not None and other_best.number != trial.number:
        values.add_row(
            "best tuning", value_text(other_best.value), _interval(other_best.interval), f"trial {other_best.number}"
        )
    return Group(title, _indented(values), Text(""), _indented(_settings(report, trial)))


def market_part(report: StudyReport) -> RenderableType | None:
    """The values of the best trial by fold, and how likely they are luck."""
    trial = report.study.chosen
    if report.market is None or trial is None:
        return None
    folds = [f"{name.removeprefix(FOLD)}: {value_text(part.get('value'))}" for name, part in trial.parts.items()]
    names = {
        "overfitting_probability": "probability of backtest overfitting",
        "loss_probability": "probability of a loss out of sample",
        "deflated_sharpe": "deflated Sharpe ratio",
        "trials": "trials tried",
    }
    lines = [heading("cross-validation"), Text(f"  folds  {'   '.join(folds)}")]
    lines += [Text(f"  {words}  {value_text(report.market.get(key))}") for key, words in names.items()]
    return Group(*lines)


def importances_part(report: StudyReport) -> RenderableType | None:
    """A bar for each parameter."""
    if not report.importances:
        return None
    shown = list(report.importances.items())[:SHOWN_IMPORTANCES]
    rows = Table.grid(padding=(0, 2))
    rows.add_column()
    rows.add_column(justify="right")
    rows.add_column(style="blue")
    for name, share in shown:
        rows.add_row(printable(name), percent(share), "█" * round(IMPORTANCE_BAR * share))
    finished = report.figures.counts["finished"]
    note = f"{METHOD_NAMES[report.method]} over {finished:,} trials{'' if finished >= ENOUGH else ': still vague'}"
    return Group(heading("importances", note), _indented(rows))


def trials_part(report: StudyReport, width: int, top: int) -> RenderableType | None:
    """The best trials with as many settings as fit, the most important first."""
    trials = report.top(SHOWN_FRONT if report.front else top)
    if len(trials) < 2:
        return None
    names = list(dict.fromkeys([*report.importances, *(name for trial in trials for name in trial.settings)]))
    names = [name for name in names if len({setting_text(trial.settings.get(name, "-")) for trial in trials}) > 1]
    made = _trials_table(report.study, trials, names)
    out = printing.console()
    while names and printing.width(out, made) + 2 > width:
        names.pop()
        made = _trials_table(report.study, trials, names)
    title = "Pareto front" if report.front else "top trials"
    total = len(report.front) if report.front else report.figures.counts["finished"]
    return Group(heading(title, f"{len(trials)} of {total:,}"), _indented(made))


def progress_part(report: StudyReport) -> RenderableType | None:
    """The runs that are being trained; without a run folder, the numbers of the trials."""
    running = report.study.of_state("running")
    if not report.progress:
        numbers = ", ".join(str(trial.number) for trial in running[:SHOWN_RUNS])
        return heading("running trials", numbers) if running else None
    made = printing.table("", "trial>", "part", "steps>", "done>", "steps/s>", "last evaluation>")
    for each in report.progress[:SHOWN_RUNS]:
        steps = f"{count(each.steps)} of {count(each.total)}" if each.total else count(each.steps)
        share = "-" if each.share is None else percent(each.share)
        speed = rate(each.steps_per_second) if each.is_busy else "waits"
        made.add_row(str(each.trial), each.part, steps, share, speed, value_text(each.value))
    more = len(report.progress) - SHOWN_RUNS
    return Group(heading("in training", f"and {more:,} more runs" if more > 0 else ""), _indented(made))


def _trials_table(study: StudyView, trials: Sequence[TrialView], names: Sequence[str]) -> Table:
    several = len(study.directions) > 1
    values = [f"value {k + 1}>" for k in range(len(study.directions))] if several else ["value>"]
    held_out = ["held-out>"] if study.verified else []
    made = printing.table("", "trial>", *values, "95 % interval", *held_out, "of", "time>", *_short(study, names))
    for trial in trials:
        verified = study.verified.get(trial.number)
        cells = [str(trial.number), *(value_text(value) for value in trial.values), _interval(trial.interval)]
        cells += [value_text(verified.iqm if verified else None)] if held_out else []
        cells += [_parts_of(trial), duration(trial.seconds)]
        made.add_row(*cells, *(setting_text(trial.settings.get(name, "-")) for name in names))
    return made


def _short(study: StudyView, names: Sequence[str]) -> list[str]:
    """Headings without the name of the learner, if the study has one only."""
    learner = f"{(study.config or {}).get('learner')}."
    alone = all(name.startswith(learner) or "." not in name for name in names)
    return [f"{printable(name.removeprefix(learner) if alone else name)}>" for name in names]


def _settings(report: StudyReport, trial: TrialView) -> Table:
    """The settings, the most important first; many in two columns."""
    names = list(dict.fromkeys([*(n for n in report.importances if n in trial.settings), *trial.settings]))
    cells = [(Text(printable(name)), Text(setting_text(trial.settings[name]), "cyan")) for name in names]
    height = len(cells) if len(cells) <= FEW_SETTINGS else (len(cells) + 1) // 2
    rows = Table.grid(padding=(0, 2))
    for left, right in zip_longest(cells[:height], cells[height:], fillvalue=(Text(""), Text(""))):
        rows.add_row(*left, *(right if len(cells) > height else ()))
    return rows


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def _parts_of(trial: TrialView) -> str:
    """
    >>> _parts_of(TrialView(0, "finished", parts={"seed-0": {}, "seed-1": {}}))
    '2 seeds'
    """
    kinds = {name.partition("-")[0] for name in trial.parts}
    if len(kinds) != 1:
        return "-" if not kinds else f"{len(trial.parts)} runs"
    return f"{len(trial.parts)} {kinds.pop()}{'s' if len(trial.parts) > 1 else ''}"


def _indented(table: Table) -> RenderableType:
    from rich.padding import Padding

    return Padding(table, (0, 0, 0, 2), expand=False)
