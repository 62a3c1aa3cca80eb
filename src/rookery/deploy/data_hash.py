"""Which bars an agent was trained on."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.deploy.gates.last_segment import last_segment
from rookery.studies.trials.plans import is_market
from rookery.training.storage.run_dir import RunDir


def data_hash(run: RunDir, config: RunConfig) -> str | None:
    """The hash of a market world's bars; None for other worlds, which have no data."""
    return last_segment(run).data_hash if is_market(config) else None
