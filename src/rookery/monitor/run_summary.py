"""The summary at the end of a run: results, and the next commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from rookery.monitor.formatting import NOT_BETTER, count, duration, number, rate, score

MOMENT = 1.0  # seconds


def rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The values of the end event as names and text, without those that are not known.

    >>> rows({"steps": 100000, "episodes": 812, "return_last_100": 487.25})
    [('final step', '100,000'), ('episodes', '812'), ('return, last 100 episodes', '487.2')]
    """
    if values.get("steps") == 0:  # it failed at once, and the error says why
        values = {key: value for key, value in values.items() if key == "path"}
    outcomes = [key for key in values if key.endswith("_last_10") and key != "return_last_10"]
    shown: list[tuple[str, str, Callable[[Any], str]]] = [
        ("final step", "steps", count),
        ("episodes", "episodes", count),
        ("time", "seconds", lambda value: _time(values)),
        ("return, last 10 episodes", "return_last_10", number),
        ("return, last 100 episodes", "return_last_100", number),
        *((f"{key.removesuffix('_last_10').replace('_', ' ')}, last 10", key, number) for key in outcomes),
        ("last evaluation", "eval/return", lambda value: score(values)),
        ("best evaluation", "eval/best_return", lambda value: _best(values)),
        ("warning", "eval/last_is_worse", lambda value: _worse(values)),
        ("envs used", "num_envs", count),
        ("restarts after failures", "restarts", count),
        ("steps/s in training", "steps_per_second", rate),
        ("run", "path", str),
        ("plot", "plot", str),
        ("report", "report", str),
        ("result", "report_verdict", str),
        ("video", "video", str),
    ]
    return [(name, text(values[key])) for name, key, text in shown if values.get(key) is not None]


def _best(values: Mapping[str, Any]) -> str:
    """The best evaluation, its step, and why it may be below the last one.

    >>> _best({"eval/best_return": -77.4, "eval/best_step": 40960, "eval/return": -75.7})
    '-77.4 at 40,960; the last is higher, but within noise'
    """
    best, step, last = (values.get(f"eval/{name}") for name in ("best_return", "best_step", "return"))
    text = number(best) if step is None else f"{number(best)} at {count(step)}"
    return f"{text}; the last is {NOT_BETTER}" if best is not None and last is not None and last > best else text


def _worse(values: Mapping[str, Any]) -> str:
    """
    >>> _worse({"eval/best_return": 94.1, "eval/return": -59.3}).partition(":")[0]
    'the last evaluation is worse than the best (-59.3 against 94.1)'
    """
    last, best = number(values["eval/return"]), number(values["eval/best_return"])
    return (
        f"the last evaluation is worse than the best ({last} against {best}): eval, watch, export and result.agent "
        "take the best"
    )


def _time(values: Mapping[str, Any]) -> str:
    """How long the run took, with what its speed leaves out, if that is more than a moment.

    >>> _time({"seconds": 38.2, "start_seconds": 27.1, "evaluation_seconds": 2.6})
    '38 s, of which 27 s to start (the first run on a machine compiles) and 3 s for evaluations'
    """
    start, evaluation = (values.get(f"{part}_seconds") or 0.0 for part in ("start", "evaluation"))
    parts = [f"{duration(start)} to start (the first run on a machine compiles)"] if start >= MOMENT else []
    parts += [f"{duration(evaluation)} for evaluations"] if evaluation >= MOMENT else []
    return duration(values["seconds"]) + (f", of which {' and '.join(parts)}" if parts else "")


def commands(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The next commands; `resume` comes first if the run ended early.

    >>> commands({"run": "CartPole-v1_ppo", "reason": "finished"})[0]
    ('evaluate it', 'rookery eval CartPole-v1_ppo')
    """
    if not values.get("run") or values.get("session_world"):  # which a command would not find
        return []
    if values.get("no_checkpoint"):  # there is no agent yet
        return [("begin it again", f"rookery resume {shlex.quote(_where(values))}")]
    words = [("evaluate it", "eval"), ("watch it", "watch")]
    words.append(("resume it" if ended_early(values) else "train longer", "resume"))
    if values.get("no_picture"):
        words.pop(1)
    if ended_early(values):
        words.insert(0, words.pop())
    elif values.get("phases_done"):  # nothing is left to resume
        words.pop()
    if values.get("league"):
        words.append(("show its league", "league"))
    more = "" if ended_early(values) else _further(values)
    name = shlex.quote(_where(values))
    return [(what, f"rookery {word} {name}{more if word == 'resume' else ''}") for what, word in words]


def _further(values: Mapping[str, Any]) -> str:
    """The flags that let a finished run continue: more of what it has reached, from what it has made."""
    goal, reached = values.get("stop_at"), values.get("eval/return")
    flags = "" if goal is None or reached is None or reached < goal else " --set evaluation.stop_at=none"
    if values.get("reason") == "goal reached" and flags:
        return flags
    episodes, wanted = int(values.get("episodes") or 0), values.get("num_episodes")
    if wanted and episodes >= wanted:
        return f"{flags} --num-episodes {2 * episodes}"
    return f"{flags} --steps {2 * int(values.get('steps') or 0)}"


def _where(values: Mapping[str, Any]) -> str:
    """The run's name if it is in the default folder, else its path."""
    path = values.get("path")
    usual = path is None or Path(str(path)).absolute().parent == Path("runs").absolute()
    return str(values["run"] if usual else path)


def title(values: Mapping[str, Any]) -> str:
    """
    >>> title({"run": "walker", "reason": "goal reached"})
    'walker: goal reached'
    """
    reason = str(values.get("reason") or "finished").splitlines()[0]  # without the traceback of a failure
    return f"{values.get('run') or 'the run'}: {reason}"


def ended_early(values: Mapping[str, Any]) -> bool:
    """Whether the run was interrupted or failed."""
    return str(values.get("reason", "")).startswith(("interrupted", "failed"))


def lines(values: Mapping[str, Any]) -> list[str]:
    """The summary as plain lines, aligned."""
    pairs = rows(values) + commands(values)
    width = max((len(name) for name, _ in pairs), default=0)
    return [title(values), *(f"  {name:<{width}}  {text}" for name, text in pairs)]


def print_summary(values: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Print the summary to `stream` (standard output): as a table on a terminal, else as plain lines."""
    stream = stream or sys.stdout
    if stream.isatty():
        _print_table(values, stream)
    else:
        stream.write("\n".join(lines(values)) + "\n")
        stream.flush()


def _print_table(values: Mapping[str, Any], stream: TextIO) -> None:
    """The summary as a table, for a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = "yellow" if ended_early(values) else "green"
    table = Table(box=None, show_header=False, pad_edge=False, title_justify="left")
    table.title = Text(title(values), f"bold {colour}")
    for name, text in rows(values):
        table.add_row(name, Text(text, overflow="fold"))
    for what, command in commands(values):
        table.add_row(what, Text(command, "cyan", overflow="fold"))
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    console.print()
    console.print(table)
