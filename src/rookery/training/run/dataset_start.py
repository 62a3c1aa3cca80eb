"""`dataset`: recorded steps in the replay buffer of a run, before its first step."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.errors import DataError, MissingExtra, OptionError
from rookery.gate import demand
from rookery.learners.execution.recorded_steps import Steps, store_steps
from rookery.learners.learner import Learner

NAMES = Steps._fields
MAIN_FILE, FACTS = Path("data", "main_data.hdf5"), Path("data", "metadata.json")
HOME = "MINARI_DATASETS_PATH"  # Minari's variable: the folder of its datasets
INDEX = "_index_"  # begins the names of the parts of a Tuple in Minari's files


def fill_replay(learner: Learner, name: str, key: str) -> None:
    """Fill the replay buffer of a new learner from a dataset; `key` is the option that names it, for messages."""
    demand("files", name, key)
    path, steps, episodes = find_dataset(name, key), 0, 0
    room = learner.replay.capacity // (1 + learner.options.hindsight)
    try:
        for part in read_minari(path) if path.is_dir() else [read_npz(path)]:
            steps, episodes = steps + len(part.rewards), episodes + int(part.ended.sum())
            if steps > room:
                raise OptionError(
                    f"has more than {room:,} steps, and all should fit in the replay buffer: raise `buffer_size`"
                )
            store_steps(learner, part)
        if not steps:
            raise DataError("has no steps")
    except (DataError, OptionError) as error:
        raise type(error)(f"`{key}`: {printable(path)}: {error}") from None
    say(f"{printable(path)}: {steps:,} steps of {episodes:,} episodes are in the replay buffer")


def find_dataset(name: str, key: str) -> Path:
    """The file or folder that a name stands for: a path, or else the name of a dataset in Minari's folder."""
    home = Path(os.environ.get(HOME) or Path.home() / ".minari" / "datasets")
    path = Path(name).expanduser()
    for place in (path, home / path):
        if place.is_file() or (place / MAIN_FILE.parent).is_dir():
            return place
    raise DataError(
        f"`{key}` = {name!r}: there is no such .npz file, no such folder of a Minari dataset, and no dataset of that "
        f"name in {printable(home)}"
    )


# --- .npz -------------------------------------------------------------------------------------------------------------


def read_npz(path: Path) -> Steps:
    """The steps of a .npz file: arrays with a row for each step. An episode that is not over where the next row does
    not follow from it, or at the end, was cut there, as by a time limit."""
    try:
        with np.load(path, allow_pickle=False) as file:
            flat = {name: file[name] for name in file.files}
    except (OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"is not a .npz file of plain arrays ({error})") from None
    nested = structured(flat)
    if missing := [name for name in NAMES if name not in nested]:
        raise DataError(f"has no {' and no '.join(missing)}; a .npz file needs {', '.join(NAMES)}, a row for each step")
    steps = Steps(*(nested[name] for name in NAMES))
    rows = len(np.atleast_1d(steps.rewards))
    for name in ("rewards", "terminations", "truncations"):
        if np.shape(nested[name]) != (rows,) or not rows:
            raise DataError(f"{name} should be one number for each of {rows} steps, got {np.shape(nested[name])}")
    flags = (np.asarray(nested[name], np.bool_) for name in ("terminations", "truncations"))
    steps = steps._replace(**dict(zip(("terminations", "truncations"), flags, strict=True)))
    cut = _breaks(flat, rows) & ~steps.terminations
    return steps._replace(truncations=steps.truncations | cut)


def _breaks(flat: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """After which steps another observation follows than the step led to; the last one always."""
    broken = np.zeros(rows, np.bool_)
    broken[-1] = True
    for name, after in flat.items():
        before = flat.get(name.removeprefix("next_"))
        if name.startswith("next_observations") and before is not None and before.shape == after.shape != ():
            differ = (before[1:] != after[:-1]).reshape(len(after) - 1, -1).any(1)
            broken[: len(differ)] |= differ[: rows - 1]
    return broken


# --- Minari -----------------------------------------------------------------------------------------------------------


def read_minari(path: Path) -> Iterator[Steps]:
    """The episodes of a Minari dataset, in their order."""
    with _opened(path) as file:
        numbers = sorted(int(name[8:]) for name in file if name.startswith("episode_") and name[8:].isdigit())
        for name in (f"episode_{number}" for number in numbers):
            yield _episode(name, _arrays(_inside(file, name)))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra(f"Minari datasets need h5py ({error}): pip install 'rookery[minari]'") from None
    if not (path / MAIN_FILE).is_file():
        raise DataError(f"has no {MAIN_FILE}: Minari's format {_format(path)!r} is not read; convert it to hdf5")
    try:
        with h5py.File(path / MAIN_FILE, "r") as file:
            yield file
    except (OSError, KeyError, RuntimeError) as error:
        raise DataError(f"{MAIN_FILE} cannot be read ({error})") from None


def _format(path: Path) -> str:
    try:
        return str(json.loads((path / FACTS).read_text()).get("data_format"))
    except (OSError, ValueError):
        return "unknown"


def _arrays(group: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of an episode by their names."""
    found: dict[str, np.ndarray] = {}
    for name in group:
        part = _inside(group, name)
        if hasattr(part, "items"):
            found |= _arrays(part, f"{prefix}{name}/")
        elif part.is_virtual or part.external or part.dtype.kind not in "biuf":
            raise DataError(f"{part.name} should be plain numbers in this file, got {part.dtype}")
        else:
            found[f"{prefix}{name}"] = part[()]
    return found


def _inside(group: Any, name: str) -> Any:
    """What a group has by this name; links are not followed."""
    if type(group.get(name, getlink=True)).__name__ != "HardLink":
        raise DataError(f"{group.name}: {name} is a link, perhaps into another file, and is not read")
    return group[name]


def _episode(name: str, flat: dict[str, np.ndarray]) -> Steps:
    """An episode has one observation more than steps."""
    wanted = [each for each in NAMES if each != "next_observations"]
    if missing := [each for each in wanted if not any(key.split("/")[0] == each for key in flat)]:
        raise DataError(f"{name} has no {' and no '.join(missing)}")
    rows = len(flat["rewards"])
    seen = {key: values for key, values in flat.items() if key.split("/")[0] == "observations"}
    if not rows or any(len(values) != rows + 1 for values in seen.values()):
        raise DataError(f"{name} should have one observation more than its {rows} steps")
    here = structured({key: values[:-1] for key, values in seen.items()})["observations"]
    after = structured({key: values[1:] for key, values in seen.items()})["observations"]
    rest = structured({key: values for key, values in flat.items() if key not in seen})
    terminations, truncations = (np.array(rest[each], np.bool_) for each in ("terminations", "truncations"))
    truncations[-1] |= not terminations[-1]  # recording stopped there
    return Steps(here, rest["actions"], rest["rewards"], after, terminations, truncations)


# --- both -------------------------------------------------------------------------------------------------------------


def structured(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by names such as "observations/goal" in the structure that these names say.

    >>> structured({"a": 1, "b/x": 2, "c/_index_0": 3, "c/_index_1": 4})
    {'a': 1, 'b': {'x': 2}, 'c': (3, 4)}
    """
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split("/")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return {name: _tuples(part) for name, part in found.items()}


def _tuples(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    parts = {name: _tuples(each) for name, each in part.items()}
    if all(name.startswith(INDEX) for name in parts):
        return tuple(parts[f"{INDEX}{k}"] for k in range(len(parts)))
    return parts
