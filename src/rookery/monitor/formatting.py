"""Metrics of a run as text, the same in the panel, the log lines and the summary; and charts of block characters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

PARTS = ("env", "policy", "learner", "gpu", "waiting", "evaluation", "other")  # of the wall time, as they are shown
UNKNOWN = "-"
SIZES = ("B", "kB", "MB", "GB", "TB")
LEARNER = ("policy", "learner", "gpu", "evaluation")  # parts of the time in which the learner's process works
NOT_BETTER = "higher, but within noise"  # a last evaluation above the best: see `is_better`
EIGHTHS = " ▁▂▃▄▅▆▇█"


def number(value: Any) -> str:
    """A return or a loss, with about four digits.

    >>> [number(v) for v in (498.23, -0.012345, 12345.6, 3e-4, 0, 2.0, None, float("nan"))]
    ['498.2', '-0.01235', '12,346', '0.0003', '0', '2', '-', '-']
    """
    if not isinstance(value, int | float) or not math.isfinite(value):
        return UNKNOWN
    if 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def count(value: Any) -> str:
    """
    >>> count(1234567), count(None)
    ('1,234,567', '-')
    """
    return f"{value:,.0f}" if isinstance(value, int | float) and math.isfinite(value) else UNKNOWN


def rate(value: Any) -> str:
    """Steps per second.

    >>> rate(71822.3), rate(3.14), rate(14.3e6), rate(None)
    ('71,822', '3.1', '14.3 M', '-')
    """
    if not isinstance(value, int | float) or not math.isfinite(value):
        return UNKNOWN
    if value >= 1e6:
        return f"{value / 1e6:.1f} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def episode_rate(values: Mapping[str, Any]) -> list[str]:
    """How fast episodes end, from the values of a progress event.

    >>> episode_rate({"episodes_per_second": 38.2, "episodes_in_rollout": 47})
    ['38.2/s', '47 in the last rollout']
    """
    speed, in_rollout = values.get("episodes_per_second"), values.get("episodes_in_rollout")
    texts = [] if speed is None else [f"{rate(speed)}/s"]
    return texts if in_rollout is None else [*texts, f"{count(in_rollout)} in the last rollout"]


def percent(share: float) -> str:
    """
    >>> percent(0.784), percent(0.004), percent(0)
    ('78 %', '0.4 %', '0 %')
    """
    return f"{100 * share:.1f} %" if 0.0005 <= share < 0.01 else f"{100 * share:.0f} %"


def duration(seconds: Any) -> str:
    """
    >>> [duration(s) for s in (0.004, 0.04, 7.2, 80, 7500, 200000, None)]
    ['0 s', '0.04 s', '7 s', '1 min 20 s', '2 h 5 min', '2 d 7 h', '-']
    """
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{seconds:.2g} s" if seconds >= 0.01 else "0 s"
    whole = round(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"


def size(number_of_bytes: Any) -> str:
    """
    >>> size(900), size(1234567), size(None)
    ('900 B', '1.2 MB', '-')
    """
    if not isinstance(number_of_bytes, int | float):
        return UNKNOWN
    power = min(int(math.log10(max(number_of_bytes, 1)) / 3), len(SIZES) - 1)
    digits = 1 if power else 0
    return f"{number_of_bytes / 1000**power:.{digits}f} {SIZES[power]}"


def system_text(values: Mapping[str, Any], cores: int | None = None) -> list[str]:
    """What the run takes of the machine, from the `system/...` values of a progress event.

    >>> used = {"system/cpu": 0.87, "system/memory": 812e6, "system/gpu": 0.45, "system/gpu_power": 121.7}
    >>> system_text({**used, "system/memory_worker_0": 2e8, "system/memory_worker_1": 2.1e8}, cores=2)
    ['CPU 87 % of 2 cores', 'memory 812.0 MB', 'largest worker 210.0 MB', 'GPU 45 %', '122 W']
    """
    found = {name.removeprefix("system/"): v for name, v in values.items() if name.startswith("system/")}
    workers = [value for name, value in found.items() if name.startswith("memory_worker_")]
    texts = []
    if "cpu" in found:
        texts.append(f"CPU {percent(found['cpu'])}" + (f" of {plural(cores, 'core')}" if cores else ""))
    if "memory" in found:
        texts.append(f"memory {size(found['memory'])}")
    if len(workers) > 1:
        texts.append(f"largest worker {size(max(workers))}")
    if "gpu" in found:
        texts.append(f"GPU {percent(found['gpu'])}")
    if "gpu_memory" in found:
        total = f" of {size(found['gpu_memory_total'])}" if "gpu_memory_total" in found else ""
        texts.append(f"GPU memory {size(found['gpu_memory'])}{total}")
    return [*texts, f"{found['gpu_power']:.0f} W"] if "gpu_power" in found else texts


def settings_text(facts: Mapping[str, Any]) -> list[str]:
    """The settings of a run, from the values of its start event.

    >>> facts = {"learner": "ppo", "num_envs": 8, "backend": "process", "workers": 2, "device": "cpu"}
    >>> settings_text({**facts, "start_method": "spawn"})
    ['ppo', '8 envs', 'process backend', '2 workers (spawn)', 'cpu']
    >>> settings_text({**facts, "backend": "kernel"})
    ['ppo', '8 envs', 'kernel backend', '2 threads', 'cpu']
    """
    parts = [str(facts.get("learner") or "")]
    if facts.get("num_envs"):
        parts.append(plural(facts["num_envs"], "env"))
    if facts.get("backend"):
        parts.append(f"{facts['backend']} backend")
    if (facts.get("workers") or 0) > 1 or facts.get("start_method"):
        parts.append(_workers(facts))
    if (facts.get("groups") or 0) > 1:
        parts.append(plural(facts["groups"], "group"))
    parts.append(str(facts.get("device") or ""))
    return [word for word in parts if word]


def _workers(facts: Mapping[str, Any]) -> str:
    """Worker processes with how they were started, or threads."""
    what = "thread" if facts.get("backend") in ("kernel", "thread") else "worker"
    start_method = facts.get("start_method")
    return plural(facts.get("workers") or 1, what) + (f" ({start_method})" if start_method else "")


def opponents_met(names: Iterable[str]) -> list[str]:
    """
    >>> opponents_met(["eval/return", "eval/weak/won", "eval/weak/lost", "eval/runs/one/won"])
    ['weak', 'runs/one']
    """
    found = (re.fullmatch("eval/(?!info/)(.+)/won", name) for name in names)  # eval/info/won is an info of the world
    return list(dict.fromkeys(match[1] for match in found if match))


def score(values: Mapping[str, Any], sign: str = "+-") -> str:
    """The return of an evaluation with half of its 95 % interval, and the win rate if it is known.

    >>> score({"eval/return": 0.57, "eval/return_low": 0.49, "eval/return_high": 0.65})
    '0.57 +- 0.08'
    >>> score({"eval/return": 5, "eval/return_low": 5, "eval/return_high": 5, "eval/win_rate": 0.65})
    '5 +- 0, 65 % won'
    >>> score({"eval/return": 5, "eval/win_rate": 0.9, "eval/strong/won": 0.9, "eval/strong/lost": 0.02})
    '5, 90 % won, 2 % lost against strong'
    """
    low, high, mean = (values.get(f"eval/return{part}") for part in ("_low", "_high", ""))
    text = number(mean)
    if low is not None and high is not None:
        half = (high - low) / 2
        rounded = 0.0 if half < 1e-9 * max(1.0, abs(mean or 0.0)) else float(f"{half:.2g}")
        text += f" {sign} {number(rounded)}"
    met = opponents_met(values)
    for who in met:
        lost = percent(values.get(f"eval/{who}/lost", 0.0))
        text += f", {percent(values[f'eval/{who}/won'])} won, {lost} lost against {who}"
    won = values.get("eval/win_rate")
    return text if won is None or met else f"{text}, {percent(won)} won"


def plural(how_many: int, what: str) -> str:
    """
    >>> plural(1, "node"), plural(1024, "node")
    ('1 node', '1,024 nodes')
    """
    return f"{how_many:,} {what}{'' if how_many == 1 else 's'}"


def cluster_text(
    values: Mapping[str, Any], shares: Mapping[str, float] | None = None, dashboard: str | None = None
) -> list[str]:
    """Nodes, what travels, how old it is, and who has worked how much of the time. [] for a run on one machine.

    >>> figures = {"cluster/nodes": 2, "cluster/collectors": 4, "cluster/bytes_per_second": 1.2e6, "cluster/busy": 0.9}
    >>> cluster_text(figures, {"learner": 0.3, "policy": 0.1, "waiting": 0.55})
    ['2 nodes', '4 collectors', '1.2 MB/s', 'learner 40 %', 'collectors 90 %', 'waiting 55 %']
    >>> cluster_text({**figures, "cluster/in_flight": 8, "cluster/staleness": 3, "cluster/discarded_steps": 64})[2:5]
    ['8 in flight', 'staleness 3', '64 steps discarded']
    """
    if "cluster/collectors" not in values:
        return []
    found = {name.removeprefix("cluster/"): v for name, v in values.items() if name.startswith("cluster/")}
    texts = [plural(int(found[name]), name[:-1]) for name in ("nodes", "collectors", "learners") if name in found]
    if found.get("lost"):
        texts.append(f"{count(found['lost'])} lost")
    if "in_flight" in found:
        texts.append(f"{count(found['in_flight'])} in flight")
    if "staleness" in found:
        texts.append(f"staleness {count(found['staleness'])}")
    if found.get("discarded_steps"):
        texts.append(f"{count(found['discarded_steps'])} steps discarded")
    if "bytes_per_second" in found:
        texts.append(f"{size(found['bytes_per_second'])}/s")
    texts += _time_by_place(found, shares or {})
    return [*texts, f"Ray's dashboard: {dashboard}"] if dashboard else texts


def _time_by_place(found: Mapping[str, Any], shares: Mapping[str, float]) -> list[str]:
    texts = [f"learner {percent(sum(shares.get(part, 0.0) for part in LEARNER))}"] if shares else []
    if "busy" in found:
        texts.append(f"collectors {percent(found['busy'])}")
    return [*texts, f"waiting {percent(shares.get('waiting', 0.0))}"] if shares else texts


def chart(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """The values as a filled curve, from their minimum (one eighth of a row) to their maximum (the top).

    >>> chart([1, 2, 3, 4, 5, 6, 7, 8], 8)
    ['▁▂▃▄▅▆▇█']
    >>> chart([0, 10], 5, 2)
    ['  ▁▄█', '▁▅███']
    """
    if not values or width < 1:
        return [" " * max(0, width)] * height
    columns = resampled(values, width)
    low, high = min(columns), max(columns)
    steps = 8 * height - 1
    levels = [1 + round(steps * (value - low) / (high - low)) if high > low else 4 * height for value in columns]
    rows = range(height - 1, -1, -1)
    return ["".join(EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in rows]


def resampled(values: Sequence[float], width: int) -> list[float]:
    """The curve at `width` points: means if there are more values, linear interpolation if there are fewer.

    >>> resampled([1, 3, 5, 7], 2), resampled([0, 2], 3)
    ([2.0, 6.0], [0.0, 1.0, 2.0])
    """
    n = len(values)
    if n >= width:
        edges = [i * n // width for i in range(width + 1)]
        return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    places = [i * (n - 1) / (width - 1) for i in range(width)]
    lower = [min(int(place), n - 1) for place in places]
    return [
        values[i] + (place - i) * (values[min(i + 1, n - 1)] - values[i])
        for i, place in zip(lower, places, strict=True)
    ]


def divide_cells(shares: Sequence[float], width: int) -> list[int]:
    """`width` cells divided in proportion to the shares; their sum is exactly `width`.

    >>> divide_cells([0.5, 0.3, 0.2], 11)
    [6, 3, 2]
    """
    total = sum(shares)
    if total <= 0:
        return [0] * len(shares)
    exact = [width * share / total for share in shares]
    cells = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: cells[i] - exact[i])
    for i in by_remainder[: width - sum(cells)]:
        cells[i] += 1
    return cells
