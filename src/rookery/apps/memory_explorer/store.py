"""The files of the explorer: save states in one folder, profiles, and screenshots. An existing file is replaced only on
request."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rookery.apps.memory_explorer.findings import extended, moved, new_profile
from rookery.apps.memory_explorer.session import WatchedValue
from rookery.errors import OptionError, WorldError
from rookery.extras import load_pillow
from rookery.worlds.gameboy.game_profile import LoadedProfile
from rookery.worlds.gameboy.rom import Rom

SUFFIX = ".state"


class Store:
    """Reads and writes the files. `written` lists those it wrote; `base` is the game's profile, if any, of which a new
    profile is a copy."""

    def __init__(self, folder: Path, base: LoadedProfile | None = None) -> None:
        self.folder, self._base = folder, base
        self.written: list[Path] = []

    def states(self) -> list[str]:
        """The names of the states in the folder, the oldest first."""
        files = sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        return [file.stem for file in files]

    def save(self, data: bytes, name: str = "", replace: bool = False) -> Path:
        """Save a state; without a name it gets the next number."""
        path = self._place(name) if name else self._next()
        self._write(path, data, replace, "save")
        return path

    def load(self, name: str) -> tuple[bytes, Path]:
        """A state by its name or path."""
        path = self._place(name)
        try:
            return path.read_bytes(), path
        except OSError as error:
            there = ", ".join(self.states()) or "none"
            raise WorldError(f"{path}: the save state cannot be read ({error.strerror}); saved are: {there}") from None

    def write_profile(self, file: str, rom: Rom, findings: Sequence[WatchedValue], replace: bool = False) -> str:
        """Add the values found to a profile, or write a new one; returns a line about what was done."""
        path = Path(file).expanduser()
        if path.suffix != ".toml":
            raise OptionError(f"{file}: the name of a profile should end in .toml")
        if path.exists() and not replace:
            return self._extend(path, findings)
        if self._base is not None:
            text, new = extended(self._copy_for(path.parent), findings, str(path))
            done = f"a copy of {self._base.name} with {_names(new)} added"
        else:
            text = new_profile(rom, findings, self._saved_beside(path))
            done = f"a new profile with {_names([named.name for named in findings])}"
        self._write(path, text.encode(), replace, "write")
        return f"{path}: {done}"

    def _copy_for(self, folder: Path) -> str:
        """The text of the base profile, for a file in another folder."""
        assert self._base is not None
        base = self._base.path
        try:
            text = base.read_text("utf-8")
        except OSError as error:
            raise WorldError(f"{base}: the profile can no longer be read ({error.strerror})") from None
        files = self._base.profile.start.files
        return text if not files else moved(text, files, base.parent, folder.resolve())

    def _saved_beside(self, path: Path) -> list[str]:
        """The states saved in this session, as paths relative to a profile's folder."""
        saved = dict.fromkeys(file for file in self.written if file.suffix == SUFFIX)
        return [Path(os.path.relpath(file, path.parent)).as_posix() for file in saved]

    def write_picture(self, file: str, screen: np.ndarray, replace: bool = False) -> Path:
        """The screen as a PNG."""
        path = Path(file).expanduser()
        if path.suffix.lower() != ".png":
            raise OptionError(f"{file}: the name of a screenshot should end in .png")
        stream = io.BytesIO()
        load_pillow().fromarray(screen).save(stream, "png")
        self._write(path, stream.getvalue(), replace, "shot")
        return path

    def _extend(self, path: Path, findings: Sequence[WatchedValue]) -> str:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorldError(f"{path}: the profile cannot be read ({error})") from None
        made, new = extended(text, findings, str(path))
        if not new:
            return f"{path}: nothing to add, it has {_names([named.name for named in findings])}"
        self._write(path, made.encode(), True, "write")
        return f"{path}: added {_names(new)} to its [memory]; the rest is unchanged"

    def _place(self, name: str) -> Path:
        """The path of a state: a bare name is in the folder."""
        path = Path(name if name.endswith(SUFFIX) else f"{name}{SUFFIX}").expanduser()
        if path.name.startswith(".") or not name.isprintable():
            raise OptionError(f"{name!r} is not a name for a state: use letters and digits, such as before_the_door")
        return path if len(path.parts) > 1 else self.folder / path

    def _next(self) -> Path:
        number = 1
        while (path := self.folder / f"moment-{number}{SUFFIX}").exists():
            number += 1
        return path

    def _write(self, path: Path, data: bytes, replace: bool, command: str) -> None:
        """Write a file atomically, and do not replace another one unless asked to."""
        if path.exists() and not replace:
            raise OptionError(f"{path} already exists: `{command}! {path.name}` replaces it")
        unfinished = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                unfinished.write_bytes(data)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
        except OSError as error:
            raise WorldError(f"{path} cannot be written ({error.strerror})") from None
        self.written.append(path)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "no values"
