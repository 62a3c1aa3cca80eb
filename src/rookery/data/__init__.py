"""Bars of markets: files, checks, features, splits. It imports neither the engine nor training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.data.checks import Problem, problems, summary
    from rookery.data.dataset import Bars, Dataset
    from rookery.data.features import CRYPTO_FEATURES, FOREX_FEATURES, add_features, first_valid
    from rookery.data.feeds.fetch import Download, fetch
    from rookery.data.feeds.update import Updated, update
    from rookery.data.opened_data import open_data, resample
    from rookery.data.splits import Split, combinatorial_purged, holdout, paths, purged_kfold, timeline, walk_forward
    from rookery.data.storage import read, write
    from rookery.data.synth import synthesise

__all__ = [
    "CRYPTO_FEATURES",
    "FOREX_FEATURES",
    "Bars",
    "Dataset",
    "Download",
    "Problem",
    "Split",
    "Updated",
    "add_features",
    "combinatorial_purged",
    "fetch",
    "first_valid",
    "holdout",
    "open_data",
    "paths",
    "problems",
    "purged_kfold",
    "read",
    "resample",
    "summary",
    "synthesise",
    "timeline",
    "update",
    "walk_forward",
    "write",
]

__getattr__, __dir__ = lazy_names(__name__)
