"""Fetches a run from a URL to which `checkpoints.mirror` has copied it, so that it can be resumed here."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.console import printable, say
from rookery.errors import CheckpointError, MissingExtra, OptionError, RunError
from rookery.gate import demand
from rookery.training.storage.checkpoint import NAME, UNFINISHED
from rookery.training.storage.checkpoint_files import MALFORMED, MANIFEST, read_manifest, verified_path

FILE_NAME = re.compile(r"[A-Za-z0-9_%][A-Za-z0-9_.%+=,@-]{0,199}")
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}")
LARGEST_RECORD = 1 << 30  # bytes


def fetch_run(url: str, base: Path) -> Path:
    """Bring the newest complete checkpoint of the run at `url`, and its records, to `base`; returns the run's folder. A
    run that is there already only gets the checkpoint, if it is later than its own."""
    files, root = open_place(url, "run")
    name = root.rpartition("/")[2]
    if not RUN_NAME.fullmatch(name) or ".." in name:
        raise RunError(f"{printable(url)} does not end in the name of a run, as in s3://bucket/runs/NAME")
    try:
        return _fetched(files, root, url, Path(base) / name)
    except OSError as error:
        raise RunError(f"{printable(url)} cannot be fetched: {error}") from error


def _fetched(files: Any, root: str, url: str, folder: Path) -> Path:
    names = [found for found in names_in(files, f"{root}/checkpoints") if NAME.fullmatch(found)]
    complete = [found for found in names if files.exists(f"{root}/checkpoints/{found}/{MANIFEST}")]
    if not complete:
        raise RunError(f"there is no run with a complete checkpoint at {printable(url)}")
    newest_first = sorted(complete, key=_order, reverse=True)
    if folder.exists():
        _refuse_another(files, root, url, folder)
        _fetch_newest(files, root, newest_first, folder)
        return folder
    arriving = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        _fetch_records(files, root, arriving)
        _fetch_newest(files, root, newest_first, arriving)
        arriving.rename(folder)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)
    say(f"{url} was fetched to {folder}")
    return folder


def _order(name: str) -> tuple[int, int]:
    found = NAME.fullmatch(name)
    assert found is not None
    return int(found[1]), int(found[2] or 1)


def _refuse_another(files: Any, root: str, url: str, folder: Path) -> None:
    def run_id(text: bytes) -> Any:
        with suppress(ValueError, AttributeError):
            return json.loads(text).get("id")
        return None

    here, there = folder / "run.json", f"{root}/run.json"
    mine = run_id(here.read_bytes()) if here.is_file() else None
    theirs = run_id(files.cat_file(there)) if files.exists(there) else None
    if mine is None or mine != theirs:
        raise RunError(
            f"{printable(folder)} is another run than the one at {printable(url)}: give --runs-dir another folder"
        )


def _fetch_newest(files: Any, root: str, newest_first: list[str], folder: Path) -> None:
    """The newest checkpoint that is undamaged, unless one as new is here."""
    own = folder / "checkpoints"
    latest = max((_order(path.name) for path in own.glob("step-*") if NAME.fullmatch(path.name)), default=(-1, 0))
    problem: CheckpointError | None = None
    for name in newest_first:
        if _order(name) <= latest:
            return
        beside = own / f"{UNFINISHED}{uuid.uuid4().hex}"
        try:
            _fetch_files(files, f"{root}/checkpoints/{name}", beside)
            _check(beside)
            beside.rename(own / name)
            return
        except CheckpointError as error:
            say(f"{error}; looking for an earlier checkpoint")
            problem = error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    if latest[0] < 0:
        raise RunError(f"no checkpoint can be fetched: {problem}")


def _check(folder: Path) -> None:
    try:
        for name, expected in read_manifest(folder)["files"].items():
            verified_path(folder / name, expected, sys.maxsize)
    except CheckpointError:
        raise
    except (*MALFORMED, OSError) as error:
        raise CheckpointError(f"{printable(folder)} is not a checkpoint: {error}") from error


def _fetch_records(files: Any, root: str, folder: Path) -> None:
    """All files beside the checkpoints. The config's place of checkpoints was one of the other machine."""
    for path in files.find(root):
        inside = str(path)[len(root) :].lstrip("/").split("/")
        if inside[0] != "checkpoints" and all(map(FILE_NAME.fullmatch, inside)) and files.size(path) < LARGEST_RECORD:
            target = folder.joinpath(*inside)
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(target))
    config = folder / "config.json"
    if not config.is_file():
        raise RunError("the run has no config.json there")
    with suppress(ValueError, AttributeError):
        recorded = json.loads(config.read_bytes())
        if (recorded.get("checkpoints") or {}).pop("dir", None) is not None:
            config.write_text(json.dumps(recorded, indent=2))


def _fetch_files(files: Any, source: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in names_in(files, source):
        if FILE_NAME.fullmatch(name):
            files.get_file(f"{source}/{name}", str(folder / name))


INSTALL = "pip install 'rookery[cloud]'"


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
