"""Which code a run may import and where it may write: what this user has trained with on this machine.

A run's folder is data, and may be from somebody else. Code that its config names is imported without a question only if
three hashes agree: that of the file now, the one that the run recorded when it was started, and the one that `train`
noted in this user's own state folder. The note is not in the run's folder, so that no run can bring its own.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rookery.config import RunConfig
from rookery.console import confirmed, printable, say
from rookery.errors import FileError, RunError
from rookery.files import read_plain
from rookery.learners.registry import specs
from rookery.training.storage.run_dir import RunDir
from rookery.user_code import module_name, permit
from rookery.user_dirs import read_own, state_folder, write_own

LARGEST = 64 << 20  # bytes of a Python file
TRUST = "if you trust it, --trust (trust=True in Python) continues"


def world_code(config: RunConfig) -> list[str]:
    """The code that building an env of the run imports: "file.py:Name"."""
    return [name for name in (config.world, *config.wrappers) if ".py:" in name]


def learner_code(config: RunConfig) -> list[str]:
    """The code that the learner's options name: its network, and schedules that are functions."""
    sections = [getattr(config, name) for name in specs() if config.learner in ("auto", name)]
    values = [value for options in sections for value in options.model_dump().values()]
    return [value for value in values if isinstance(value, str) and ".py:" in value]


def code_in(config: RunConfig) -> list[str]:
    """All code that a config names: "file.py:Name"."""
    opponents = [opponent.who for phase in config.all_phases for opponent in phase.opponents]
    options = [value for value in config.world_options.values() if isinstance(value, str)]  # such as a guide
    code = (config.world, *learner_code(config), *config.callbacks, *config.wrappers, *options)
    named = (*code, *opponents, *config.evaluation.opponents, *config.league.baselines)
    return [name for name in dict.fromkeys(named) if ".py:" in name]


def remember(run: RunDir, config: RunConfig) -> None:
    """Note the code that a run uses, in its folder and for this user, and where it keeps its checkpoints."""
    files = {str(file): _sha256(file) for file in map(_file_of, code_in(config)) if file.is_file()}
    run.remember(code=files)
    notes = dict(files)
    if run.keeps_checkpoints_outside:
        notes[_outside(run)] = str(run.id)
    if (endpoint := _remote_guide(config)) is not None:
        notes[endpoint] = str(run.id)
    for path, fact in notes.items():
        _write_note(path, fact)


def check_code(run: RunDir, names: Sequence[str], trust: bool) -> bool:
    """Ask the user before code that a run names, as "file.py:Name", is imported; refuse it without a terminal. Returns
    whether there was a reason to ask."""
    asked = _ask_about(run, list(_doubts(run, names)), trust)
    permit(names)
    return asked


def check_run(run: RunDir, config: RunConfig, trust: bool) -> bool:
    """The same for all code that resuming a run would import, and for where it would write."""
    names = code_in(config)
    doubts = list(_doubts(run, names))
    if run.keeps_checkpoints_outside and run.id not in _notes(_outside(run)):
        doubts.append(f"it keeps checkpoints in {_outside(run)}, outside of its own folder, and was not started here")
    endpoint = _remote_guide(config)
    if endpoint is not None and run.id not in _notes(endpoint):
        doubts.append(f"it would send values of the game, and your key, to {endpoint}, and was not started here")
    asked = _ask_about(run, doubts, trust)
    permit(names)
    return asked


def _doubts(run: RunDir, names: Sequence[str]) -> Iterator[str]:
    recorded = run.birth().get("code")
    known = recorded if isinstance(recorded, dict) else {}
    for name in names:
        file = _file_of(name)
        is_loaded = module_name(str(file)) in sys.modules  # its code has run in this process already
        if not is_loaded and (why := _doubt(run, file, known)):
            yield f"it would run code, {name}: {why}"


def _doubt(run: RunDir, file: Path, recorded: dict[str, object]) -> str:
    """Why a file should not be run without a question; "" if there is no reason. A missing file is an error
    elsewhere."""
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


def _ask_about(run: RunDir, doubts: list[str], trust: bool) -> bool:
    """Continue if there are no doubts, if the user trusts the run, or agrees at the terminal."""
    if not doubts:
        return False
    what = f"{run.name} is not opened without a question: {'; '.join(doubts)}"
    answer = True if trust else confirmed(f"{what}. Continue?")
    if answer is None:
        raise RunError(f"{printable(what)}; {TRUST}")
    if not answer:
        raise RunError("not opened, as you did not agree")
    return True


# --- files and notes --------------------------------------------------------------------------------------------------


def _file_of(name: str) -> Path:
    """The file of "file.py:Name"."""
    return Path(name.rpartition(":")[0]).resolve()


def _remote_guide(config: RunConfig) -> str | None:
    """The endpoint of a guide on another machine."""
    options = config.world_options
    return f"guide_url {options.get('guide_url')!r:.200}" if options.get("guide_remote") else None


def _outside(run: RunDir) -> str:
    return str(run.checkpoints.resolve())


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
