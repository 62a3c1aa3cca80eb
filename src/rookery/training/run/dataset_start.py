"""`dataset`: recorded steps in the replay buffer of a run, before its first step."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.console import printable, say
from rookery.errors import DataError, MissingExtra, OptionError
from rookery.gate import demand
from rookery.learners.action_spaces import action_tree
from rookery.learners.learner import Learner
from rookery.learners.observations import Leaf, part_of, split
from rookery.learners.replay_buffer import Complete, Transitions

# Steps that were recorded elsewhere, in the replay buffer of a learner as if it had made them itself, in one env.

Check = Callable[[np.ndarray], str]  # what values should be, if they are something else; else ""


class Steps(NamedTuple):
    """Steps in the order in which they were made, arrays with a row for each. Observations and actions have the
    structure of their space. The last one ends an episode."""

    observations: Any
    actions: Any
    rewards: np.ndarray
    next_observations: Any  # after the step: at the end of an episode its last one
    terminations: np.ndarray
    truncations: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """Where an episode ended."""
        return self.terminations | self.truncations


def store_steps(learner: Learner, steps: Steps) -> None:
    """Put them in the replay buffer, and update the normalisers. They count neither for schedules nor for updates that
    are due.

    Raises:
        DataError: They have other spaces than the learner, or values that no env returns.
    """
    check_steps(learner, steps)
    execution, device = learner.execution, learner.device
    seen, following = (split(learner.leaves, part, device) for part in (steps.observations, steps.next_observations))
    actions = own_actions(learner, steps.actions)
    learner.policy.encoder.update_normalisers(seen)
    if learner.scale is not None:
        learner.scale.update_recorded(steps.rewards, steps.ended)
    complete = transitions(steps, learner.options.n_step, learner.options.gamma)
    execution.add(Transitions(seen, actions, complete, following))
    if execution.hindsight is not None:
        for episode in _episodes(steps.ended):
            parts = [leaf[episode] for leaf in seen], actions[episode], [leaf[episode] for leaf in following]
            for copies in execution.hindsight.copies(*parts, bool(steps.terminations[episode][-1])):
                execution.add(copies)


def transitions(steps: Steps, n_step: int, gamma: float) -> Complete:
    """One begins with each step: it ends `n_step` steps later, or with its episode. The numbers are those of
    `NStepBuffer`."""
    count = len(steps.rewards)
    last_steps = np.flatnonzero(steps.ended)
    ends = last_steps[np.searchsorted(last_steps, np.arange(count))]  # of the episode of each step
    lasts = np.minimum(np.arange(count) + n_step - 1, ends)
    totals, powers, lengths = np.zeros(count), np.ones(count), lasts - np.arange(count) + 1
    rewards = np.asarray(steps.rewards, np.float64)
    for k in range(n_step):
        rows = np.flatnonzero(lengths > k)
        totals[rows] += powers[rows] * rewards[rows + k]
        powers[rows] *= gamma
    outcomes = np.stack([totals, np.where(steps.terminations[lasts], 0.0, powers)], 1)
    return np.arange(count), lasts, outcomes.astype(np.float32)


def _episodes(ended: np.ndarray) -> list[slice]:
    lasts = np.flatnonzero(ended)
    return [slice(first, last + 1) for first, last in zip([0, *(lasts[:-1] + 1)], lasts, strict=True)]


def own_actions(learner: Learner, actions: Any) -> Tensor:
    """The actions of an env as the learner stores them."""
    space = learner.agent.action_space
    if isinstance(space, spaces.Discrete):
        own = np.asarray(actions) - space.start
    else:
        tree = action_tree(space)
        own = learner.policy.bounds.from_env(np.asarray(actions) if tree is None else tree.flatten(actions))
    return torch.from_numpy(own).to(learner.device, learner.example_action.dtype)


# --- checks -----------------------------------------------------------------------------------------------------------


def check_steps(learner: Learner, steps: Steps) -> None:
    """Refuse steps of other spaces, and values that no env returns."""
    rows, found = len(steps.rewards), list[str]()
    for name in ("observations", "next_observations"):
        found += [_unfit(name, leaf, getattr(steps, name), leaf.shape, rows, _reads(leaf)) for leaf in learner.leaves]
    space = learner.agent.action_space
    tree = action_tree(space)
    for part in (_Plain((), space),) if tree is None else tree.parts:
        found.append(_unfit("actions", part, steps.actions, tuple(part.space.shape or ()), rows, _takes(part.space)))
    if wrong := [text for text in found if text]:
        raise DataError("; ".join(wrong))
    if not np.isfinite(steps.rewards).all():
        raise DataError("rewards should be finite numbers")


class _Plain(NamedTuple):
    """A space that is one array, as a part of itself."""

    path: tuple[str | int, ...]
    space: spaces.Space


def _unfit(name: str, part: Any, values: Any, shape: tuple[int, ...], rows: int, check: Check) -> str:
    """What is wrong with the values of a part; "" if nothing is."""
    where = ".".join([name, *map(str, part.path)])
    try:
        found = part_of(values, part)
    except (KeyError, IndexError, TypeError):
        return f"{where} should be there, and are not"
    if isinstance(found, (dict, tuple)):
        parts = ", ".join(map(str, found if isinstance(found, dict) else range(len(found))))
        return f"{where} should be one array with the shape {(rows, *shape)}, got the parts {parts}"
    array = np.asarray(found)
    if array.shape != (rows, *shape):
        return f"{where} should have the shape {(rows, *shape)}, got {array.shape}"
    wish = check(array)
    return f"{where} should be {wish}, got {_range(array)}" if wish else ""


def _reads(leaf: Leaf) -> Check:
    """What a leaf of the observations should be, for values that are something else."""

    def check(values: np.ndarray) -> str:
        if leaf.kind == "choice":
            low, high = np.reshape(leaf.starts, leaf.shape), np.reshape(np.add(leaf.starts, leaf.sizes) - 1, leaf.shape)
            fits = values.dtype.kind in "iu" and bool(((values >= low) & (values <= high)).all())
            return "" if fits else f"integers from {low.min()} to {high.max()}"
        if leaf.byte:
            return "" if values.dtype == np.uint8 else "bytes (uint8)"
        return "" if values.dtype.kind in "biuf" and np.isfinite(values).all() else "finite numbers"

    return check


def _takes(space: Any) -> Check:
    """The same for actions."""

    def check(values: np.ndarray) -> str:
        if isinstance(space, spaces.Discrete):
            low, high = int(space.start), int(space.start + space.n) - 1
            fits = values.dtype.kind in "iu" and bool(((values >= low) & (values <= high)).all())
            return "" if fits else f"integers from {low} to {high}"
        slack = 1e-5 * (space.high - space.low)  # of other roundings
        fits = values.dtype.kind in "iuf" and bool(
            ((values >= space.low - slack) & (values <= space.high + slack)).all()
        )
        return "" if fits else f"numbers from {space.low.min():g} to {space.high.max():g}"

    return check


def _range(values: np.ndarray) -> str:
    """The type of values and, of numbers, the smallest and the largest one."""
    if values.dtype.kind not in "biuf" or not values.size:
        return str(values.dtype)
    return f"{values.dtype} from {values.min():g} to {values.max():g}"


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
