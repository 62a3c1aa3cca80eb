"""Asks the user before a recorded run reaches outside its folder (see gate.py).

A run's folder is data, and may be from somebody else. Code that its config names is imported without a question only if
three hashes agree: that of the file now, the one that the run recorded when it was started, and the one that `train`
noted in this user's own state folder. Paths and hosts are reached without a question only if the note says that this
run, by its id, was started here with them. Notes are not in the run's folder, so that no run can bring its own.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from rookery.config import RunConfig
from rookery.console import confirmed, printable, say
from rookery.errors import FileError, NotAllowed
from rookery.files import read_plain
from rookery.gate import Reach, allow, code_file, module_name, reaches
from rookery.learners.registry import specs
from rookery.training.storage.run_dir import RunDir
from rookery.user_dirs import read_own, state_folder, write_own
from rookery.worlds import registry

LARGEST = 64 << 20  # bytes of a Python file
MOST_SHOWN = 5  # doubts in one question
TRUST = "if you trust it, --trust (trust=True in Python) continues"


class Recorded(Protocol):
    """What was recorded in a folder, perhaps by somebody else: a run or a study."""

    @property
    def path(self) -> Path: ...

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> str | None: ...

    def birth(self) -> dict[str, Any]:
        """What was recorded when it began, such as the hashes of its code."""


def reached_by(config: RunConfig, playing: bool = False) -> list[Reach]:
    """What a config names outside, by the marks of its fields; `playing` leaves out what only training reaches."""
    found = [*reaches(config, playing), *_connecting_options(config)]
    unread = ("search.", *(f"{name}." for name in specs() if config.learner not in ("auto", name)))
    return [reach for reach in found if not reach.key.startswith(unread)]


def _connecting_options(config: RunConfig) -> Iterator[Reach]:
    """Options of a world with a value that stands for a service, such as guide = "openai"."""
    known = [option for spec in registry.specs() for option in spec.options if option.connects]
    phases = [(f"phases[{k}].options", phase.options) for k, phase in enumerate(config.phases)]
    mixed = [(f"phases[{k}].mixture", part.options) for k, phase in enumerate(config.phases) for part in phase.mixture]
    for key, options in [("world_options", config.world_options), *phases, *mixed]:
        for option in known:
            if options.get(option.name) in option.connects:
                yield Reach("network", f"{key}.{option.name}", str(options[option.name]))


def code_in(config: RunConfig) -> list[str]:
    """All code that a config names: "file.py:Name"."""
    names = (reach.value for reach in reached_by(config) if reach.kind == "code")
    return [name for name in dict.fromkeys(names) if ".py:" in name]


def remember(run: RunDir, config: RunConfig) -> None:
    """Note what a run reaches, in its folder and for this user: code by its hash, all else by the run's id."""
    found = reached_by(config)
    code = (Path(code_file(reach.value)).resolve() for reach in found if reach.kind == "code")
    files = {str(file): _sha256(file) for file in code if file.is_file()}
    run.remember(code=files)
    for path, fact in files.items():
        _write_note(path, fact)
    remember_places(run, found)


def remember_places(owner: Recorded, found: Sequence[Reach]) -> None:
    """Note for this user that a run or a study was started here with these paths and hosts."""
    for reach in found:
        if reach.kind != "code":
            _write_note(_note_key(reach), str(owner.id))


def check_reach(run: Recorded, found: Sequence[Reach], trust: bool, way_out: str = TRUST) -> bool:
    """Ask the user before anything that a run's files name outside is reached; refuse it without a terminal. Returns
    whether there was a reason to ask."""
    asked = _ask_about(run, list(dict.fromkeys(_doubts(run, found))), trust, way_out)
    allow(found)
    return asked


def check_run(run: RunDir, config: RunConfig, trust: bool, playing: bool = False) -> bool:
    """The same for all that a run's config names: what resuming it would reach, or only what `playing` does."""
    return check_reach(run, reached_by(config, playing), trust)


def _doubts(run: Recorded, found: Sequence[Reach]) -> Iterator[str]:
    recorded = run.birth().get("code")
    known = recorded if isinstance(recorded, dict) else {}
    for reach in found:
        why = _doubt_about_code(run, reach, known) if reach.kind == "code" else _doubt_about_place(run, reach)
        if why:
            yield f"{reach}: {why}"


def _doubt_about_place(run: Recorded, reach: Reach) -> str:
    inside = reach.kind == "files" and Path(reach.value).resolve().is_relative_to(run.path.resolve())
    known = inside or (run.id is not None and run.id in _notes(_note_key(reach)))
    return "" if known else "it was not started here with that"


def _doubt_about_code(run: Recorded, reach: Reach, recorded: dict[str, object]) -> str:
    """Why code should not be run without a question; "" if there is no reason, as for a file that is missing, which is
    an error elsewhere, or code that has run in this process."""
    file = Path(code_file(reach.value)).resolve()
    if module_name(str(file)) in sys.modules:
        return ""
    if file.is_relative_to(run.path.resolve()):
        return "the file lies in the run's own folder"
    if not file.is_file():
        return ""
    now, notes = _sha256(file), _notes(str(file))
    if str(file) not in recorded:
        return "the run has no record of the file that it was made with"
    if recorded[str(file)] != now:
        return "the file is not the one that the run was made with"
    return "" if now in notes else "you have not trained with this file on this machine"


def _ask_about(run: Recorded, doubts: list[str], trust: bool, way_out: str) -> bool:
    """Continue if there are no doubts, if the user trusts the run, or agrees at the terminal."""
    if not doubts:
        return False
    shown = [*doubts[:MOST_SHOWN], *([f"and {len(doubts) - MOST_SHOWN} more"] if len(doubts) > MOST_SHOWN else [])]
    what = f"{run.name} is not opened without a question: {'; '.join(shown)}"
    answer = True if trust else confirmed(f"{what}. Continue?")
    if answer is None:
        raise NotAllowed(f"{printable(what)}; {way_out}")
    if not answer:
        raise NotAllowed("not opened, as you did not agree")
    return True


# --- files and notes --------------------------------------------------------------------------------------------------


def _note_key(reach: Reach) -> str:
    """What a note is filed under: a path by what it leads to."""
    is_path = reach.kind == "files" and "://" not in reach.value
    return f"{reach.kind} {Path(reach.value).expanduser().resolve() if is_path else reach.value}"


def _sha256(file: Path) -> str:
    try:
        return hashlib.sha256(read_plain(file, LARGEST)).hexdigest()
    except OSError as error:
        raise FileError(f"{printable(file)} cannot be read: {error.strerror or error}") from None


def _note_file(path: str) -> Path | None:
    folder = state_folder("trust")
    return None if folder is None else folder / hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()


def _notes(path: str) -> list[str]:
    """The notes about a file or folder: its hashes, or the runs that write there."""
    file = _note_file(path)
    try:
        return read_own(file).decode("utf-8", "replace").split("\n")[1:] if file else []
    except OSError:
        return []


def _write_note(path: str, fact: str) -> None:
    file, known = _note_file(path), _notes(path)
    if fact in known:
        return
    try:
        if file is None:
            raise FileError("there is no folder for states that is yours alone")
        write_own(file, "\n".join([path, *filter(None, known), fact]).encode("utf-8", "surrogateescape"))
    except OSError as error:
        say(f"{path} could not be noted as yours ({error.strerror or error}): to open this run again takes --trust")
