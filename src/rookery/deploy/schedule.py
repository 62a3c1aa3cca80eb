"""Renews an agent on a schedule: bring the data up to date, search again, promote what is better, trade it on paper.

Each step is a command of its own, in a process of its own: a step that fails or is killed takes nothing else down. What
has been done is in a file, so that a restart repeats no finished step of the same period.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rookery.config import user_config
from rookery.config.sections import seconds_in
from rookery.console import printable, say
from rookery.deploy.registry import Registry
from rookery.errors import OptionError, RunBusy
from rookery.files import read_plain, replace_file
from rookery.monitor.alerts import Alerts
from rookery.training.commands import start_command
from rookery.training.storage.run_lock import Lock

DAY = 86_400.0
ATTEMPTS = 3  # of a step that fails
RETRY_SECONDS = 600.0  # between two of them
STOP_SECONDS = 90.0  # for a step that is told to end, which saves its checkpoints; less than systemd waits
STANDARD_ERROR = 2  # where steps print: standard output is for the result of this command
LARGEST_STATE = 1 << 20  # bytes
FORMAT = 1
NAME = re.compile(r"[^A-Za-z0-9_.+=,@-]+")


@dataclass(frozen=True)
class Step:
    """A command of a period. It is skipped if the step that it needs has failed."""

    name: str
    words: tuple[str, ...]
    needs: str | None = None


@dataclass(frozen=True)
class Plan:
    """What is renewed, from what, and how often."""

    name: str  # of the studies, to which the period is added
    config: str
    registry: str
    data: str | None = None
    every: float = DAY
    at: float = 0.0  # seconds after midnight UTC at which a period begins
    studies_dir: str = "studies"
    search: tuple[str, ...] = ()  # further words of `rookery search`
    deploy: tuple[str, ...] = ()  # further words of `rookery deploy`
    paper: str | None = None  # bars on which the champion trades on paper
    limits: tuple[str, ...] = ()  # further words of `rookery paper`
    trust: tuple[str, ...] = ()  # "--trust", or nothing

    def period(self, now: float) -> tuple[str, float]:
        """The name of the present period, and when the next one begins.

        >>> Plan("a", "a.toml", "agents").period(1_700_000_000.0)
        ('2023-11-14', 1700006400.0)
        """
        start = (now - self.at) // self.every * self.every + self.at
        form = "%Y-%m-%d" if self.every % DAY == 0 else "%Y-%m-%dT%H%M"
        return datetime.fromtimestamp(start, UTC).strftime(form), start + self.every

    def steps(self, period: str) -> list[Step]:
        """The commands of a period. A study is of one period: values on other data cannot be compared."""
        study, where = f"{self.name}-{period}", ("--studies-dir", self.studies_dir)
        update = [Step("data", ("data", "update", self.data))] if self.data else []
        trade, check = (
            ("paper", self.registry, *words, *self.trust)
            for words in (("--data", self.paper or "", *self.limits), ("--check",))
        )
        trading = [Step("paper", trade, needs="promote"), Step("parity", check, needs="paper")] if self.paper else []
        return [
            *update,
            Step("search", ("search", self.config, "--study-name", study, *where, "--no-panel", *self.search)),
            Step(
                "promote", ("deploy", study, "--to", self.registry, *where, "--json", *self.deploy, *self.trust),
                needs="search",
            ),
            *trading,
        ]  # fmt: skip

    @property
    def state_file(self) -> Path:
        return Path(self.studies_dir) / f"{self.name}.schedule.json"


def schedule(
    config: str,
    to: str | Path,
    *,
    data: str | Path | None = None,
    every: str | float = "24h",
    at: str = "00:00",
    study_name: str | None = None,
    studies_dir: str | Path | None = None,
    margin: float | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
    paper: str | Path | None = None,
    max_drawdown: float | None = None,
    attempts: int = ATTEMPTS,
) -> Schedule:
    """Update data, search again, promote what is better and trade it on paper, every day. Returns the schedule: its
    `run()` works until `stop()`, `run(once=True)` does what is left of this period and returns what became of it.

    The configuration is checked now, and not when the first search begins at night.

    Args:
        config: What to search: a config file or a world, as for `rookery.search`.
        to: The folder of the registry.
        data: The file or folder of bars to update first.
        every: The length of a period, such as "24h" or "7d".
        at: When a period begins, in UTC.
        study_name: The beginning of the studies' names; if omitted, that of the config.
        studies_dir: The folder of the studies; if omitted, as the config says.
        margin: By how much a candidate must be better, as for `rookery.deploy`.
        overrides: Changes of the config, such as "search.n_trials=50".
        trust: Run the code of the runs' world without a question.
        paper: A file or folder of bars on which the champion trades on paper, up to their end, as in `rookery.paper`;
            then the account is compared with a backtest. In the next period it continues with the new bars. Without a
            champion there is no account.
        max_drawdown: The part that the paper account may lose before it stops, as for `rookery.paper`.
        attempts: How often a step that fails is tried, before an alert is sent.
    """
    checked = user_config(config, overrides)
    for option, path in (("--data", data), ("--paper", paper)):
        if path is not None and not Path(path).exists():
            raise OptionError(f"{option} {path}: there is no such file or folder; `rookery data fetch` makes one")
    try:
        period = float(seconds_in(every))
    except ValueError as error:
        raise OptionError(f"--every: {error}") from None
    name = study_name or checked.search.study_name or NAME.sub("-", Path(config).stem).strip("-.")
    plan = Plan(
        name=name, config=str(config), registry=str(to), data=None if data is None else str(data), every=period,
        at=_seconds(at), studies_dir=str(studies_dir or checked.search.studies_dir),
        search=tuple(word for change in overrides for word in ("--set", change)),
        deploy=() if margin is None else ("--margin", str(margin)), trust=("--trust",) if trust else (),
        paper=None if paper is None else str(paper),
        limits=() if max_drawdown is None else ("--max-drawdown", str(max_drawdown)),
    )  # fmt: skip
    return Schedule(plan, attempts=attempts)


def _seconds(text: str) -> float:
    """Seconds after midnight.

    >>> _seconds("02:30")
    9000.0
    """
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if found is None:
        raise OptionError(f"--at should be a time of day such as 02:30, got {text!r}")
    return 3600.0 * int(found[1]) + 60.0 * int(found[2])


class Schedule:
    """Carries out a plan, period by period."""

    def __init__(
        self, plan: Plan, *, alerts: Alerts | None = None, attempts: int = ATTEMPTS, start: Callable = start_command
    ) -> None:
        if plan.every < 60:
            raise OptionError(f"--every should be at least 60 s, got {plan.every:g} s")
        self.plan, self._alerts = plan, alerts or Alerts.from_environment()
        self._attempts, self._start = attempts, start
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End soon, also from a signal handler. A step that is running is told to end; a restart continues it."""
        self._stopped.set()

    def run(self, once: bool = False) -> dict[str, Any]:
        """Do what is left of this period; then, unless `once`, wait for the next one, until `stop()`. Returns the state
        of the last period."""
        self.plan.state_file.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(self.plan.state_file):
            while True:
                period, following = self.plan.period(time.time())
                state = self._run_period(period)
                if once or self._stopped.wait(max(0.0, following - time.time())):
                    return state

    def _run_period(self, period: str) -> dict[str, Any]:
        state, steps = self._read(period), self.plan.steps(period)
        left = [step for step in steps if state["steps"].get(step.name, {}).get("state") != "finished"]
        if not left:
            say(f"{self.plan.name}: nothing is left to do for {period}")
        for step in left:
            if self._stopped.is_set():
                break
            reason = self._why_skipped(step, state)
            outcome = {"state": "skipped", "reason": reason} if reason else self._do(step)
            if outcome is not None:
                state["steps"][step.name] = {**outcome, "time": datetime.now(UTC).isoformat(timespec="seconds")}
                replace_file(self.plan.state_file, [json.dumps(state, indent=2).encode(), b"\n"])
        known = {step.name: state["steps"][step.name] for step in steps if step.name in state["steps"]}
        return {**state, "steps": known}  # an earlier plan of this period may have had others

    def _why_skipped(self, step: Step, state: Mapping[str, Any]) -> str:
        if step.needs and state["steps"].get(step.needs, {}).get("state") != "finished":
            return f"{step.needs} has not finished"
        if step.name != "paper" or Registry(self.plan.registry).champion_number() is not None:
            return ""
        say(f"{self.plan.name}: no paper account: nothing has been promoted to {self.plan.registry} yet")
        return "nothing has been promoted yet"

    def _do(self, step: Step) -> dict[str, Any] | None:
        """Try a step until it succeeds, at most a few times; None if the schedule was stopped in the meantime."""
        for attempt in range(1, self._attempts + 1):
            began = time.monotonic()
            say(f"{self.plan.name}: rookery {' '.join(step.words)}")
            status, answer = self._wait_for(step)
            if self._stopped.is_set() and status != 0:
                return None
            if "text" in answer:
                say(f"{self.plan.name}: {answer['action']}: {answer['text']}")
            facts = {"status": status, "seconds": round(time.monotonic() - began, 1), "attempts": attempt, **answer}
            if status == 0 or answer.get("action") == "refused":  # the gate did not hold: nothing is wrong
                return {"state": "finished", **facts}
            say(f"{self.plan.name}: {step.name} ended with status {status} (attempt {attempt} of {self._attempts})")
            if attempt < self._attempts and self._stopped.wait(RETRY_SECONDS):
                return None
        text = f"{self.plan.name}: {step.name} has failed with status {status}: rookery {' '.join(step.words)}"
        self._alerts.send("schedule-failed", text, {"step": step.name, **facts})
        return {"state": "failed", **facts}

    def _wait_for(self, step: Step) -> tuple[int, dict[str, Any]]:
        """The exit status of a step, and what it decided if it prints JSON."""
        process = self._start(*step.words, stdout=subprocess.PIPE if "--json" in step.words else STANDARD_ERROR)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(process.stdout.read() if process.stdout else b""))
        reader.start()
        while process.poll() is None:
            if self._stopped.wait(0.2):
                _end(process)
        reader.join()
        if process.stdout:
            process.stdout.close()
        return process.returncode, _decision(b"".join(read))

    def _read(self, period: str) -> dict[str, Any]:
        """What has been done in this period."""
        new: dict[str, Any] = {"format": FORMAT, "name": self.plan.name, "period": period, "steps": {}}
        try:
            found = json.loads(read_plain(self.plan.state_file, LARGEST_STATE))
        except FileNotFoundError:
            return new
        except (ValueError, RecursionError):
            say(f"{self.plan.state_file} is damaged: this period starts over")
            return new
        same = isinstance(found, dict) and found.get("period") == period and isinstance(found.get("steps"), dict)
        return found if same else new


def _only_one(state_file: Path) -> Lock:
    path = state_file.with_suffix(".lock")
    try:
        return Lock(path)
    except RunBusy:
        raise RunBusy(
            f"another `rookery schedule` is at work on {printable(state_file)}: end it, or give this one another name "
            "by --study-name"
        ) from None


def _end(process: Any) -> None:
    """Ask a step to end; kill it if it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _decision(output: bytes) -> dict[str, Any]:
    """What `rookery deploy --json` says."""
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return {key: str(found.get(key, "")) for key in ("action", "text")} if isinstance(found, dict) else {}
