"""What is done about envs that fail, in training and wherever else a run's envs are played."""

from __future__ import annotations

from typing import Any

from rookery.config import RunConfig


def failure_options(config: RunConfig) -> dict[str, Any]:
    """Options of `make_vec`. On a GPU no env is restarted: an error ends the run."""
    names = ("step_timeout", "on_failure", "max_restarts", "bad_values")
    options = {name: getattr(config, name) for name in names}
    return {**options, "on_failure": "raise"} if config.backend == "cuda" else options
