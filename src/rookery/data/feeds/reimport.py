"""Bars that were imported from files: which files and how, so that they can be read again when they have grown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.data.dataset import Dataset
from rookery.data.importing.import_options import ImportOptions
from rookery.data.open_data import open_data
from rookery.data.timeframes import timeframe_name
from rookery.errors import DataError, OptionError

OPTIONS = {field.name: field.default for field in fields(ImportOptions) if field.name != "notes"}


def import_entry(sources: Sequence[str], out: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of the history for an import of these files with these options; None if the result replaces its source.

    Paths are relative to the folder of the result, so that both can be moved together.
    """
    target, files = Path(os.path.realpath(out)), [Path(os.path.realpath(source)) for source in sources]
    if target in files:
        return None
    return {
        "command": f"import {' '.join(sources)}", "source": "files",
        "paths": [os.path.relpath(file, target.parent) for file in files],
        "options": {name: options[name] for name, usual in OPTIONS.items() if options.get(name, usual) != usual},
    }  # fmt: skip


def is_import(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a history is one of these."""
    paths = entry.get("paths")
    return isinstance(paths, list) and bool(paths) and isinstance(entry.get("options"), dict)


def imported_again(entry: Mapping[str, Any], data: Dataset) -> Dataset:
    """The bars that the files have now."""
    folder = Path(data.place).parent
    paths = [os.path.normpath(folder / str(path)) for path in entry["paths"]]
    options = {name: value for name, value in entry["options"].items() if name in OPTIONS}
    try:
        found = open_data(paths if len(paths) > 1 else paths[0], **options)
    except (DataError, OptionError) as error:
        raise DataError(f"{printable(data.place)}: what it was imported from cannot be read again: {error}") from None
    except TypeError:
        raise DataError(f"{printable(data.place)}: its history has unknown options: import it again") from None
    if (found.timeframe, found.calendar) != (data.timeframe, data.calendar):
        raise DataError(
            f"{printable(data.place)}: its bars of {timeframe_name(data.timeframe)}, calendar {data.calendar}, are "
            f"bars of {timeframe_name(found.timeframe)}, calendar {found.calendar}, in its source: import it again"
        )
    return found
