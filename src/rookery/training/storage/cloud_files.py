"""Files at URLs, such as s3://bucket/runs, by fsspec."""

from __future__ import annotations

import re
from typing import Any

from rookery.errors import MissingExtra, OptionError
from rookery.gate import demand

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
INSTALL = "pip install 'rookery[cloud]'"


def is_url(text: object) -> bool:
    """
    >>> is_url("s3://bucket/runs"), is_url("runs/mine")
    (True, False)
    """
    return URL.match(str(text)) is not None


def open_place(url: str, key: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it, without a slash at its end. `key` is what names the URL."""
    demand("network", url, key)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtra(f"{url} is reached by fsspec, which cannot be imported ({error}): {INSTALL}") from None
    try:
        files, path = url_to_fs(url)
    except ImportError as error:
        raise MissingExtra(f"{url} needs a package that cannot be imported ({error}): {INSTALL}") from None
    except ValueError as error:
        raise OptionError(f"{url} is not a place for files: {error}; give a URL such as s3://bucket/runs") from None
    return files, str(path).rstrip("/")


def names_in(files: Any, folder: str) -> list[str]:
    """The names in a folder, as it is now; none if there is no such folder."""
    files.invalidate_cache()
    try:
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in files.ls(folder, detail=False))
    except FileNotFoundError:
        return []
