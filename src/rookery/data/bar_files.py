"""Files of bars, checked before anything uses them: what a file is, by its first bytes, and rookery's Parquet files.

The name of a file may say something else than its contents. Pickles are rejected, and never read. polars may panic on
damaged files, and print the stack of its own code: both are caught.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rookery.console import printable
from rookery.data.calendars import timeframe_seconds
from rookery.data.dataset import Dataset
from rookery.errors import DataError
from rookery.extras import load_polars

FORMAT = 1
METADATA = "rookery"
MAGIC = b"PAR1"
LARGEST_FOOTER = 1 << 26
STDERR = 2
PICKLE_NAMES = (".pkl", ".pickle", ".pk", ".p", ".joblib", ".dill")
OLD_PICKLES = (b"cnumpy", b"cpandas", b"ccopy_reg", b"c__builtin__", b"(dp", b"(lp", b"(dq", b"(lq")  # protocols 0, 1
TEXT_NAMES = (".csv", ".txt", ".tsv")
PACKED_NAMES = (".gz", ".zip")
LARGEST_TEXT = 4 << 30  # bytes of a text that was compressed
ARRAY_NAMES = (".npy", ".npz")
NUMPY, ZIP, GZIP = b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b"
OTHERS = {
    b"BZh": "is compressed by bzip2: run `bunzip2` on it first",
    b"\xfd7zXZ": "is compressed by xz: run `unxz` on it first",
    b"\x28\xb5\x2f\xfd": "is compressed: run `zstd -d` on it first",
    b"\x89HDF": "is an HDF5 file: save the table as Parquet or CSV instead",
    b"ARROW1": "is a Feather file: save the table as Parquet instead",
    b"SQLite format 3": "is a database: save the table as Parquet or CSV instead",
    b"\xd0\xcf\x11\xe0": "is an Excel file: save the table as CSV instead",
    b"<!DOCTYPE": "is a web page, not a table: download the file itself",
    b"<html": "is a web page, not a table: download the file itself",
    b"{": "is JSON: save the table as Parquet or CSV instead",
}  # fmt: skip


def read_frame(path: Path) -> tuple[Any, Dataset, str]:
    """The table of one of rookery's files, as a polars frame; what the metadata says about its bars, as a dataset
    without bars; and the hash that they should have."""
    check_readable(path)
    facts = read_metadata(path).get(METADATA)
    if facts is None:
        raise DataError(
            f"{printable(path)}: this is not a data file of rookery; `rookery data import {printable(path)} --out F` "
            "makes one from it"
        )
    about, frame = _parse(path, facts), read_parquet(path)
    _check_schema(path, frame)
    return frame, *about


def check_readable(path: Path) -> None:
    """Reject anything but a readable regular file with contents."""
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
    return _from_parquet(path, "read_parquet")


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of any Parquet file."""
    return _from_parquet(path, "read_parquet_metadata")


def _from_parquet(path: Path, function: str) -> Any:
    """What a function of polars reads from a file."""
    try:
        return guarded(lambda: getattr(load_polars(), function)(path))
    except UnreadableTable as error:
        raise DataError(
            f"{printable(path)}: cannot be read as a Parquet file ({printable(error)}): it is cut off or damaged; "
            "get or make it again"
        ) from None


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


def _parse(path: Path, text: str) -> tuple[Dataset, str]:
    try:
        facts = json.loads(text)
        version = facts["format"]
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(
                f"{printable(path)}: its format {version!r} is newer than {FORMAT}, which this rookery reads: "
                "update rookery"
            )
        history = tuple(dict(entry) for entry in facts["history"])
        timeframe, calendar = timeframe_seconds(facts["timeframe"]), str(facts["calendar"])
        return Dataset((), timeframe, calendar, facts["one_price"] is True, history, str(path)), str(facts["hash"])
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{printable(path)}: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{printable(path)}: its metadata cannot be read ({type(error).__name__}: {printable(error)}): make the "
            "file again"
        ) from None


def _check_schema(path: Path, frame: Any) -> None:
    polars, types = load_polars(), dict(frame.schema)
    wanted = {"symbol": polars.String, "time": polars.Datetime("ms", "UTC")}
    wrong = [name for name, kind in wanted.items() if types.pop(name, None) != kind]
    wrong += [name for name, kind in types.items() if kind != polars.Float64]
    if wrong or frame.columns[:2] != list(wanted) or frame["time"].null_count() or frame["symbol"].null_count():
        raise DataError(
            f"{printable(path)}: the columns are not those of a data file of rookery ({', '.join(wrong) or 'order'}): "
            "the file was changed; make it again"
        )


Result = TypeVar("Result")
_one_at_a_time = threading.Lock()


class UnreadableTable(Exception):
    """polars cannot read a file; the message says why in one line."""


def guarded(read: Callable[[], Result]) -> Result:
    """What `read` returns; an UnreadableTable after any error of polars."""
    panic = load_polars().exceptions.PanicException  # derives from BaseException
    try:
        with _one_at_a_time, _held_stderr():
            return read()
    except panic:
        raise UnreadableTable("its parts contradict each other") from None
    except Exception as error:  # noqa: BLE001 - polars raises errors of many kinds
        raise UnreadableTable((str(error).splitlines() or [type(error).__name__])[0][:200]) from None


@contextmanager
def _held_stderr() -> Iterator[None]:
    """Hold back what is written to standard error, and drop it if an error ends the block: a panic writes there."""
    try:
        kept = os.dup(STDERR)
    except OSError:  # standard error is closed
        yield
        return
    with tempfile.TemporaryFile() as held:
        try:
            os.dup2(held.fileno(), STDERR)
            yield
        except BaseException:
            held.truncate(0)
            raise
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)
            held.seek(0)
            with suppress(OSError):
                os.write(STDERR, held.read())


def kind_of(path: Path) -> str:
    """ "parquet", "text", "npy" or "npz"; everything else is rejected, with what to do."""
    check_readable(path)
    with path.open("rb") as file:
        head = file.read(64)
    ending, name = path.suffix.lower(), printable(path)
    if ending in PICKLE_NAMES or _is_pickle(head):
        raise DataError(pickle_message(path))
    if head.startswith(MAGIC):
        return "parquet"
    if head.startswith(NUMPY):
        return "npy"
    if head.startswith(ZIP):
        return "npz" if ending == ".npz" else "text"
    if head.startswith(GZIP):
        return "text"
    for magic, what in OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"{name}: the file {what}")
    if ending in (".parquet", ".pq", *ARRAY_NAMES):
        raise DataError(
            f"{name}: the file is not a {ending} file: its first bytes are {head[:8]!r}; get or make it again"
        )
    if ending not in TEXT_NAMES:
        raise DataError(f"{name}: the file is neither .csv, .parquet, .npy nor .npz: save the bars as one of these")
    return "text"


def contents(path: Path) -> bytes:
    """The bytes of a file; of one that is compressed by gzip, or of the only table in a ZIP archive, what is inside."""
    content, name = path.read_bytes(), printable(path)
    if not content.startswith((GZIP, ZIP)):
        return content
    try:
        if content.startswith(GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                content = file.read(LARGEST_TEXT + 1)
        else:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(_only_table(archive, name))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{name}: cannot be unpacked ({printable(error)}): get it again, or unpack it first") from None
    if len(content) > LARGEST_TEXT:
        raise DataError(f"{name}: more than {LARGEST_TEXT >> 30} GiB are inside: unpack and divide it first")
    return content


def _only_table(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """The table in an archive, beside which there may be other files, such as a description."""
    files = [each for each in archive.infolist() if not each.is_dir()]
    if any(each.filename == "xl/workbook.xml" for each in files):
        raise DataError(f"{name}: the file is an Excel file: save the table as CSV instead")
    tables = [each for each in files if each.filename.lower().endswith((".csv", ".tsv"))] or [
        each for each in files if each.filename.lower().endswith(TEXT_NAMES)
    ]
    if len(tables) != 1:
        raise DataError(f"{name}: the archive holds {len(tables)} tables: unpack it, and name its folder")
    if tables[0].file_size > LARGEST_TEXT:
        raise DataError(f"{name}: more than {LARGEST_TEXT >> 30} GiB are inside: unpack and divide it first")
    return tables[0]


def _is_pickle(head: bytes) -> bool:
    return (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")) or head.startswith(OLD_PICKLES)


def pickle_message(path: Path) -> str:
    """Why the file is rejected, and the command that converts it."""
    source = str(path)
    if path.suffix.lower() == ".joblib":
        new = str(path.with_suffix(".npy"))
        code = f"import joblib, numpy as np; np.save({new!r}, np.asarray(joblib.load({source!r}), float))"
    elif "array" in path.stem.lower() or path.suffix.lower() == ".npy":
        stem = f"{path.stem}_new" if path.suffix.lower() == ".npy" else path.stem
        new = str(path.with_name(f"{stem}.npy"))
        code = f"import numpy as np; np.save({new!r}, np.asarray(np.load({source!r}, allow_pickle=True), float))"
    else:
        new = str(
            path.with_suffix(".parquet") if path.suffix != ".parquet" else path.with_name(f"{path.stem}_new.parquet")
        )
        code = f"import pandas; pandas.read_pickle({source!r}).to_parquet({new!r})"
    return (
        f"{printable(path)}: the file is a pickle, which can execute code when it is read, so rookery never reads one; "
        f"if you trust its author, convert it in your own environment: python -c {printable(shlex.quote(code))}"
    )


def object_array_message(path: Path, name: str) -> str:
    """For an array of Python objects in a file of arrays: it is pickled."""
    new = str(path.with_name(f"{path.stem}_new{path.suffix}"))
    code = f"import numpy as np; a = np.load({str(path)!r}, allow_pickle=True); "
    if path.suffix.lower() == ".npz":
        code += f"np.savez({new!r}, **{{k: a[k].astype(str if 'time' in k else float) for k in a}})"
    else:
        code += f"np.save({new!r}, a.astype({'str' if 'time' in name else 'float'}))"
    return (
        f"{printable(path)}: {printable(name)} is an array of Python objects, which is pickled and can execute code "
        f"when it is read; if you trust its author, convert it in your own environment: python -c "
        f"{printable(shlex.quote(code))}"
    )
