"""Bars of markets: files, checks, features, splits. It imports neither the engine nor training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.data.checks import Problem as Problem, problems as problems, summary as summary
    from rookery.data.dataset import Bars as Bars, Dataset as Dataset
    from rookery.data.features import (
        CRYPTO_FEATURES as CRYPTO_FEATURES,
        FOREX_FEATURES as FOREX_FEATURES,
        add_features as add_features,
        first_valid as first_valid,
    )
    from rookery.data.feeds.fetch import Download as Download, fetch as fetch
    from rookery.data.feeds.update import Updated as Updated, update as update
    from rookery.data.opened_data import open_data as open_data, resample as resample
    from rookery.data.splits import (
        Split as Split,
        combinatorial_purged as combinatorial_purged,
        holdout as holdout,
        paths as paths,
        purged_kfold as purged_kfold,
        timeline as timeline,
        walk_forward as walk_forward,
    )
    from rookery.data.storage import read as read, write as write
    from rookery.data.synth import synthesise as synthesise

__getattr__, __dir__, __all__ = lazy_names(__name__)
