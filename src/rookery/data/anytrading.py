"""Real bars that come with the package gym-anytrading: EURUSD, one hour, 2017."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rookery.data.dataset import Dataset
from rookery.data.open_data import open_data
from rookery.errors import MissingExtra

NAME = "gym-anytrading"  # as the option `data` of the forex world
FILE = "datasets/data/FOREX_EURUSD_1H_ASK.csv"


def anytrading_file() -> Path:
    """Where the file is, without an import of the package."""
    spec = find_spec("gym_anytrading")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the bars of {NAME} come with that package, which is not installed: pip install {NAME}")
    return Path(spec.submodule_search_locations[0]) / FILE


def anytrading_bars() -> Dataset:
    """The bars. The file names no zone and has the day first; its own loader reads it so."""
    found = open_data(anytrading_file(), timezone="UTC", calendar="forex", day_first=True)
    return replace(found, bars=(replace(found.bars[0], symbol="EURUSD"),), place=f"{NAME}'s EURUSD")
