"""What a file is, by its first bytes: its name may say something else. Pickles are refused, and never read."""

from __future__ import annotations

import shlex
from pathlib import Path

from rookery.console import printable
from rookery.data.stored_file import MAGIC, check_readable
from rookery.errors import DataError

PICKLE_NAMES = (".pkl", ".pickle", ".pk", ".p", ".joblib", ".dill")
OLD_PICKLES = (b"cnumpy", b"cpandas", b"ccopy_reg", b"c__builtin__", b"(dp", b"(lp", b"(dq", b"(lq")  # protocols 0, 1
TEXT_NAMES = (".csv", ".txt", ".tsv")
ARRAY_NAMES = (".npy", ".npz")
NUMPY, ZIP, GZIP = b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b"
OTHERS = {
    GZIP: "is compressed by gzip: run `gunzip` on it first",
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


def kind_of(path: Path) -> str:
    """ "parquet", "text", "npy" or "npz"; everything else is refused, with what to do."""
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
        if ending == ".npz":
            return "npz"
        raise DataError(f"{name}: the file is a ZIP archive: unpack it first")
    for magic, what in OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"{name}: the file {what}")
    if ending in (".parquet", ".pq", *ARRAY_NAMES):
        raise DataError(f"{name}: the file is no {ending} file: its first bytes are {head[:8]!r}; get or make it again")
    if ending not in TEXT_NAMES:
        raise DataError(f"{name}: the file is neither .csv, .parquet, .npy nor .npz: save the bars as one of these")
    return "text"


def _is_pickle(head: bytes) -> bool:
    return (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")) or head.startswith(OLD_PICKLES)


def pickle_message(path: Path) -> str:
    """Why the file is refused, and the command that converts it."""
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
