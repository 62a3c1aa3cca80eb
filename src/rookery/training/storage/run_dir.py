"""The folder of a run: its files, and how runs are found."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rookery.console import join_or, printable
from rookery.errors import FileError, RunError
from rookery.files import open_plain, read_plain, replace_file
from rookery.foreign_names import FILES
from rookery.training.storage.registry_folder import find_version, outputs_folder
from rookery.training.storage.run_lock import Lock

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}")
SHOWN = 10  # names in an error message
LARGEST = 16 << 20  # bytes of a file that is read at once
LARGEST_METRICS = 1 << 30
LONGEST_LINE = 1 << 20  # bytes of a line of metrics
ADDED_TO = (
    "run.lock", "metrics.jsonl", "metrics.columns", "evaluations.jsonl", "episodes.jsonl", "hints.jsonl",
    "num_envs.jsonl", "checkpoints", "tensorboard", "plots", "report", "videos", "league",
)  # fmt: skip
ID = re.compile(r"[0-9a-f]{32}")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class RunDir:
    """`runs/NAME/`: resolved config, metrics, evaluations, checkpoints, plots, report, videos and the summary."""

    def __init__(self, path: Path, checkpoint_dir: Path | None = None) -> None:
        """The run in `path`. With a `checkpoint_dir` its checkpoints are in a folder of the run's name in there, which
        `write_config` records; without, they are where the config says, or in the run's own folder."""
        self.path = Path(path)
        self._folder_name = os.path.basename(os.path.abspath(path))  # also of "."
        self.name = printable(self._folder_name)  # whatever somebody has called it
        self.config, self.summary = self.path / "config.json", self.path / "summary.json"
        self.metrics, self.evaluations = self.path / "metrics.jsonl", self.path / "evaluations.jsonl"
        self.outputs = outputs_folder(self.path)  # a version in a registry never changes: its videos are elsewhere
        self._checkpoint_dir = None if checkpoint_dir is None else Path(checkpoint_dir).absolute()
        self._made_base = False

    # Made when they are requested: a table of a thousand runs needs none of them.
    @property
    def episodes(self) -> Path:
        return self.path / "episodes.jsonl"

    @property
    def hints(self) -> Path:
        return self.path / "hints.jsonl"

    @property
    def ratings(self) -> Path:
        return self.path / "league" / "ratings.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def plots(self) -> Path:
        return self.outputs / "plots"

    @property
    def videos(self) -> Path:
        return self.outputs / "videos"

    @property
    def report(self) -> Path:
        return self.outputs / "report"

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    # --- making and finding -------------------------------------------------------------------------------------

    @classmethod
    def create(cls, base: Path, name: str, checkpoint_dir: Path | None = None) -> RunDir:
        """A new folder in `base`: `name` or, if that exists, `name-2`, `name-3` and so on."""
        if not NAME.fullmatch(name) or ".." in name:
            raise RunError(
                f"{name!r} cannot be the name of a run: use up to 100 letters, digits and any of _ . + = , @ -, "
                "beginning with a letter, digit or _"
            )
        if name == "latest":
            raise RunError("'latest' stands for the newest run, so that no run can have this name")
        base = Path(base)
        made_base = not base.exists()
        for folder in filter(None, (base, checkpoint_dir)):
            _make_folder(folder)
        for number in count(1):
            run = cls(base / (name if number == 1 else f"{name}-{number}"), checkpoint_dir)
            try:
                run.path.mkdir()  # the process that makes the folder has the name
            except FileExistsError:
                continue
            except (OSError, ValueError) as error:
                raise RunError(f"no run can be kept in {printable(base)} ({_why(error)})") from None
            run._made_base = made_base
            run.remember(created=time.time(), id=uuid.uuid4().hex)
            return run
        raise AssertionError

    @classmethod
    def find(cls, run: str | Path, base: Path) -> RunDir:
        """The run of this name in `base` or at this path; "latest" is the one that was started last,
        "registry:DIR@champion" a version in a registry of agents, a URL one that is fetched to `base`, and a crash
        report one that is unpacked there."""
        if URL.match(str(run)):  # what fetches it imports NumPy, which listing runs does not need
            from rookery.training.storage.remote_run import fetch_run

            return cls(fetch_run(str(run), base))
        version = find_version(run)
        if version is not None:
            return cls(version)
        runs = cls.all(base)
        if run == "latest":
            if not runs:
                raise RunError(f"there are no runs in {printable(base)}")
            return runs[-1]
        for path in (Path(base) / run, Path(run)):
            if _is_run(path):
                return cls(path)
        if Path(run).suffix == ".zip" and Path(run).is_file():
            from rookery.training.storage.crash_report import is_report, unpack_report

            if is_report(Path(run)):
                return cls(unpack_report(Path(run), base))
        if (text := FILES.get(Path(run).suffix.lower())) is not None:
            raise RunError(f"{str(run)!r} is not a run: {text.format(file=run)}")
        if os.path.isfile(os.path.join(run, "manifest.json")):
            raise RunError(
                f"{str(run)!r} is the folder of an agent, not of a run: in Python, agent = rookery.load({str(run)!r}) "
                "loads it for rookery.evaluate(agent, world=...), rookery.record(agent, ...) and agent.export(...)"
            )
        raise RunError(
            f"there is no run {str(run)!r} in {printable(base)}{_near(str(run), [found.name for found in runs])}"
        )

    @classmethod
    def all(cls, base: Path) -> list[RunDir]:
        """All runs in `base`, the newest last."""
        base = Path(base)
        runs = [cls(path) for path in base.iterdir() if _is_run(path)] if base.is_dir() else []
        return sorted(runs, key=lambda run: (run.created, run.name))

    def discard(self) -> None:
        """Remove the folder of a run that was created and never began."""
        outside = self.checkpoints
        shutil.rmtree(self.path, ignore_errors=True)
        for folder in (outside, self.path.parent if self._made_base else outside):
            with suppress(OSError):  # others use it
                folder.rmdir()

    @property
    def created(self) -> float:
        """When the run was started, in seconds since 1970."""
        try:
            return float(self._read(self._birth)["created"])
        except (RunError, KeyError, TypeError, ValueError, OverflowError):  # made by hand, or copied in part
            return (self.config if self.config.exists() else self.path).stat().st_mtime

    # --- contents -----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str | None:
        """A unique id of this run, wherever its folder is; None for a run from before there were ids."""
        found = self.birth().get("id")
        return found if isinstance(found, str) and ID.fullmatch(found) else None

    @property
    def checkpoints(self) -> Path:
        """The folder of the run's checkpoints."""
        place: Any = self._checkpoint_dir
        if place is None and self.config.exists():
            section = self.read_config().get("checkpoints")
            place = section.get("dir") if isinstance(section, dict) else None
        if place is None:
            return self.path / "checkpoints"
        if not isinstance(place, (str, Path)) or "\0" in str(place):
            raise RunError(f"{printable(self.config)} is damaged: `checkpoints.dir` is {place!r:.60}, and no folder")
        return Path(place) / self._folder_name

    @property
    def keeps_checkpoints_outside(self) -> bool:
        """Whether checkpoints are in a folder outside of the run's own."""
        return not self.checkpoints.resolve().is_relative_to(self.path.resolve())

    def birth(self) -> dict[str, Any]:
        """What `run.json` records about the start of the run; {} if it cannot be read."""
        try:
            return self._read(self._birth)
        except RunError:
            return {}

    def remember(self, **facts: Any) -> None:
        """Record more facts in `run.json`."""
        self._write(self._birth, {**self.birth(), **facts})

    def refuse_links(self) -> None:
        """Refuse a folder in which a file that a run adds to is a link. All other files are written again, and replace
        a link."""
        for name in ADDED_TO:
            if (self.path / name).is_symlink():
                raise FileError(
                    f"{printable(self.path / name)} is a link to elsewhere, and a run writes to its own folder only: "
                    "remove it, or replace it by the file that it points to"
                )

    def refuse_version(self) -> None:
        """Refuse to change a version in a registry."""
        if self.outputs != self.path:
            raise RunError(
                f"{printable(self.path)} is a version in a registry, which never changes: begin a new run from it with "
                f"init_from={printable(self.path)!r}"
            )

    def read_config(self) -> dict[str, Any]:
        return self._read(self.config)

    def write_config(self, config: dict[str, Any]) -> None:
        if self._checkpoint_dir is not None:
            section = {**(config.get("checkpoints") or {}), "dir": str(self._checkpoint_dir)}
            config = {**config, "checkpoints": section}
        self._write(self.config, config)

    def read_summary(self) -> dict[str, Any] | None:
        """The summary; None if there is none yet."""
        return self._read(self.summary) if self.summary.exists() else None

    def write_summary(self, summary: dict[str, Any]) -> None:
        self._write(self.summary, summary)

    def lock(self) -> Lock:
        """Lock the folder for this process until the lock is released; RunBusy if another process holds it."""
        return Lock(self.path / "run.lock")

    def truncate_after(self, step: int) -> None:
        """Remove metrics, evaluations, episodes, hints and ratings later than `step`, and incomplete lines. To be
        called on resuming, before these files are opened: they are replaced."""
        for path in (self.metrics, self.evaluations, self.episodes, self.hints, self.ratings):
            if path.exists() and path.stat().st_size > LARGEST_METRICS:
                raise RunError(f"{printable(path)} is larger than {LARGEST_METRICS >> 30} GiB, which no run writes")
            if path.exists() and any(not _is_kept(line, step) for line in _lines(path)):
                replace_file(path, (line for line in _lines(path) if _is_kept(line, step)))

    # --- helpers ------------------------------------------------------------------------------------------------

    @property
    def _birth(self) -> Path:
        return self.path / "run.json"

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            value = json.loads(read_plain(path, LARGEST))
        except OSError as error:
            raise RunError(f"{printable(path)} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{printable(path)} is damaged: it is not JSON ({error})") from error
        if not isinstance(value, dict):
            raise RunError(f"{printable(path)} is damaged: it holds a {type(value).__name__}, not an object")
        return value

    def _write(self, path: Path, contents: dict[str, Any]) -> None:
        replace_file(path, [json.dumps(contents, indent=2).encode(), b"\n"])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = "it is a file" if isinstance(error, FileExistsError) else _why(error)
        raise RunError(
            f"{printable(folder)} cannot be the folder for runs or checkpoints: {why}; give another --runs-dir"
        ) from None


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _is_run(path: Path) -> bool:
    try:
        return (path / "run.json").is_file() or (path / "config.json").is_file()
    except (OSError, ValueError):  # a name too long to be one
        return False


def _lines(path: Path) -> Iterator[bytes]:
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        yield from iter(lambda: file.readline(LONGEST_LINE), b"")


def _is_kept(line: bytes, step: int) -> bool:
    """Whether a line is complete and not of a later step."""
    if not line.endswith(b"\n"):
        return False
    try:
        return json.loads(line)["step"] <= step
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _near(name: str, names: list[str]) -> str:
    """Names that the user may have meant, for the end of an error message."""
    if not names:
        return ": there are no runs yet"
    near = difflib.get_close_matches(name, ["latest", *names], 3)
    newest = ", ".join(names[: -SHOWN - 1 : -1]) + (", ..." if len(names) > SHOWN else "")
    return (f"; did you mean {join_or(near)}? There are" if near else "; there are") + f": {newest}"
