"""One of rookery's Parquet files: its table and its metadata, checked before anything uses them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.data.quiet import UnreadableTable, guarded
from rookery.data.timeframes import timeframe_seconds
from rookery.errors import DataError
from rookery.extras import load_polars

FORMAT = 1
METADATA = "rookery"
MAGIC = b"PAR1"
LARGEST_FOOTER = 1 << 26


@dataclass(frozen=True)
class Facts:
    """What the metadata says about the bars."""

    timeframe: int
    calendar: str
    one_price: bool
    hash: str
    history: tuple[dict[str, Any], ...]


def read_frame(path: Path) -> tuple[Any, Facts]:
    """The table of a file, as a polars frame, and its facts."""
    check_readable(path)
    polars = load_polars()
    facts = read_metadata(path).get(METADATA)
    if facts is None:
        raise DataError(
            f"{printable(path)}: this is no data file of rookery; `rookery data import {printable(path)} --out F` "
            "makes one from it"
        )
    parsed, frame = _parse(path, facts), read_parquet(path)
    _check_schema(path, polars, frame)
    return frame, parsed


def check_readable(path: Path) -> None:
    """Refuse what is no readable regular file with contents, in one sentence."""
    name = printable(path)
    if path.is_symlink() and not path.exists():
        raise DataError(f"{name}: this link leads to {printable(os.readlink(path))}, which does not exist")
    if not path.exists():
        raise DataError(f"{name}: there is no such file or folder")
    if path.is_dir():
        raise DataError(f"{name}: this is a folder where a file should be")
    if not path.is_file():
        raise DataError(f"{name}: this is not a regular file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{name}: there is no permission to read it (chmod u+r)")
    if path.stat().st_size == 0:
        raise DataError(f"{name}: the file is empty; get or make it again")


def read_parquet(path: Path) -> Any:
    """The table of any Parquet file, as a polars frame."""
    try:
        return guarded(lambda: load_polars().read_parquet(path))
    except UnreadableTable as error:
        raise _damaged(path, error) from None


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of any Parquet file."""
    try:
        return guarded(lambda: load_polars().read_parquet_metadata(path))
    except UnreadableTable as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{printable(path)}: cannot be read as a Parquet file ({printable(error)}): it is cut off or damaged; "
        "get or make it again"
    )


def is_ours(path: Path) -> bool:
    """Whether a file was written by rookery."""
    try:
        return path.is_file() and METADATA in read_metadata(path)
    except DataError:
        return False


def footer(path: Path) -> bytes:
    """The footer of a Parquet file, which holds its metadata; b"" of other files."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC or length > min(size - 8, LARGEST_FOOTER):
            return b""
        file.seek(size - 8 - length)
        return file.read(length)


def _parse(path: Path, text: str) -> Facts:
    try:
        facts = json.loads(text)
        version = facts["format"]
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(
                f"{printable(path)}: its format {version!r} is newer than {FORMAT}, which this rookery reads: "
                "update rookery"
            )
        history = tuple(dict(entry) for entry in facts["history"])
        return Facts(
            timeframe_seconds(facts["timeframe"]), str(facts["calendar"]), facts["one_price"] is True,
            str(facts["hash"]), history,
        )  # fmt: skip
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{printable(path)}: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{printable(path)}: its metadata cannot be read ({type(error).__name__}: {printable(error)}): make the "
            "file again"
        ) from None


def _check_schema(path: Path, polars: Any, frame: Any) -> None:
    types = dict(frame.schema)
    wanted = {"symbol": polars.String, "time": polars.Datetime("ms", "UTC")}
    wrong = [name for name, kind in wanted.items() if types.pop(name, None) != kind]
    wrong += [name for name, kind in types.items() if kind != polars.Float64]
    if wrong or frame.columns[:2] != list(wanted) or frame["time"].null_count() or frame["symbol"].null_count():
        raise DataError(
            f"{printable(path)}: the columns are not those of a data file of rookery ({', '.join(wrong) or 'order'}): "
            "the file was changed; make it again"
        )
