"""All checks, one after another, each with a line."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.training import check_installed
from rookery.training.selftest import engine_checks
from rookery.training.selftest.outcome import FAILED, OK, SKIPPED, CheckOutcome, NotChecked
from rookery.training.selftest.run_checks import RunChecks

Check = Callable[[], str]


@dataclass(frozen=True)
class SelftestReport:
    """The results of all checks, and the folder of the runs, which is kept if a check has failed."""

    outcomes: list[CheckOutcome]
    kept: Path | None

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return all(outcome.state != FAILED for outcome in self.outcomes)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        checks = [asdict(outcome) for outcome in self.outcomes]
        return {"ok": self.ok, "checks": checks, "kept": None if self.kept is None else str(self.kept)}


def run_selftest(tell: Callable[[CheckOutcome], None]) -> SelftestReport:
    """Run all checks, and hand each result to `tell` at once."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-selftest-"))
    outcomes: list[CheckOutcome] = []
    try:
        for subject, check in _checks(RunChecks(folder)).items():
            outcomes.append(_outcome(subject, check))
            tell(outcomes[-1])
    finally:
        failed = any(outcome.state == FAILED for outcome in outcomes)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return SelftestReport(outcomes, folder if failed else None)


def _checks(runs: RunChecks) -> dict[str, Check]:
    return {
        "the engine's compiled loops": engine_checks.check_loops,
        "worker processes": engine_checks.check_workers,
        "packages for training": _check_packages,
        "a compiled world": engine_checks.check_kernel,
        "training": runs.check_training,
        "a killed worker": runs.check_killed_worker,
        "a killed run": runs.check_killed_run,
        "resuming it": runs.check_resume,
        "the GPU": runs.check_gpu,
    }


def _check_packages() -> str:
    check_installed()
    return "torch and Numba are installed"


def _outcome(subject: str, check: Check) -> CheckOutcome:
    started = time.perf_counter()
    try:
        state, text = OK, check()
    except NotChecked as reason:
        state, text = SKIPPED, str(reason)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        state, text = FAILED, f"{printable(error) or type(error).__name__}"
    return CheckOutcome(subject, state, text, time.perf_counter() - started)
