"""What the verbs about stored runs share: finding the run, checking its code, printing the result."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import RunError
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir

LOADING = "loading torch"  # which takes seconds


def find_run(options: argparse.Namespace) -> RunDir:
    from rookery.training.storage.run_dir import RunDir

    return RunDir.find(options.name, Path(options.runs_dir))


def find_run_or_shipped(options: argparse.Namespace) -> RunDir | None:
    """The run; None if there is no run of this name, but an agent that comes with rookery."""
    try:
        return find_run(options)
    except RunError:
        if options.name not in registry.names() or options.name not in registry.agents():
            raise
        return None


def check_run_world(found: RunDir | None, options: argparse.Namespace, resuming: bool = False) -> dict[str, bool]:
    """Ask for permission to execute the code of a run's world, and find the world, before torch is loaded. Returns the
    keyword that prevents a second question."""
    if found is None:
        return {}
    from rookery.config import build_config
    from rookery.training.resolve import world_choice
    from rookery.training.storage import trust

    config = build_config(found.read_config())
    trusted = trust.check_run(found, config, options.trust, playing=not resuming)
    world_choice.find(config.world, config.takes_twin, config.learner, config.world_options)
    return {"trust": True} if trusted else {}


def stdout_to_stderr(wanted: bool) -> contextlib.AbstractContextManager:
    """With --json, standard output holds the JSON object alone: what a run prints goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext()


def finish_run(result: Any, as_json: bool) -> int:
    """The exit status of a run, after its result was printed as JSON if that was asked for."""
    if as_json:
        from rookery import printing

        printing.emit_json(result.as_json())
    return result.exit_code


def print_path(path: Path | None, as_json: bool) -> int:
    """Print the file that was written, if one was. Returns the exit status."""
    if as_json:
        from rookery import printing

        printing.emit_json({"path": None if path is None else str(path)})
    elif path is not None:
        print(path)
    return 0
