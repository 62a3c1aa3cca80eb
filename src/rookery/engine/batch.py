"""The batch: every array that envs, workers and learner share, as views into one block of memory.

A space is a tree; its leaves are arrays (Box, Discrete, MultiBinary, MultiDiscrete), which get a column with one row
per env, or objects (Text, Graph, Sequence, ...), which have no fixed size and are sent as messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode

from rookery.console import size_text
from rookery.engine.machine import FEWEST_PROCESSES, available_memory, most_processes, usable_cores
from rookery.errors import ActionTypeError, MemoryShortage, OptionError, SpaceError

ALL = slice(None)  # all envs; compared by identity on the hot path
LISTED_BYTES = 200  # memory per env in the engine's own lists
PYTHON_ENV_BYTES = 2000  # of the smallest env that is a Python object
MOST_FLAGGED = 62  # leaves of a space that one word can flag
INFO_SLOTS = 32  # numeric info keys that are sent in shared memory; further keys are pickled
WORKER_WORDS = 8  # one cache line per worker

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
CACHE_LINE = 64

# The 64-bit words of a worker: wake-ups sent to it, whether it sleeps, the env it is at, its steps so far, and messages
# sent to it. Each is written by one side only, so no lock is needed.
WAKEUP, ASLEEP, ROW, STEPS, MESSAGES = range(5)


# --- spaces as leaves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpaceLeaf:
    """One leaf of a space: its place in the tree and, if it is an array, its column's shape and dtype."""

    path: tuple[str | int, ...]
    space: Space
    shape: tuple[int, ...] = ()
    dtype: np.dtype | None = None  # None: an object

    @property
    def name(self) -> str:
        return "".join(f"[{key!r}]" for key in self.path)


def leaves(space: Space, path: tuple[str | int, ...] = ()) -> list[SpaceLeaf]:
    """The leaves of `space` in a fixed order."""
    if isinstance(space, spaces.Dict):
        return [leaf for key, child in space.spaces.items() for leaf in leaves(child, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for key, child in enumerate(space.spaces) for leaf in leaves(child, (*path, key))]
    if isinstance(space, ARRAY_SPACES):
        # NumPy's own dtype object: unpickling makes copies, and comparing by identity is faster.
        dtype = np.dtype(np.dtype(space.dtype).str)
        if dtype.hasobject:
            return [SpaceLeaf(path, space)]
        return [SpaceLeaf(path, space, tuple(space.shape or ()), dtype)]
    if isinstance(space, Space):
        return [SpaceLeaf(path, space)]
    where = "".join(f"[{key!r}]" for key in path)
    raise SpaceError(f"expected a gymnasium Space{' at ' + where if where else ''}, got {space!r}")


def is_custom(space: Space) -> bool:
    """Whether a space is of a class that is not Gymnasium's own."""
    return not type(space).__module__.startswith("gymnasium.")


def split(space: Space, value: Any) -> list[Any]:
    """The leaf values of a nested `value`, in the order of `leaves(space)`."""
    if isinstance(space, spaces.Dict):
        try:
            parts = [value[key] for key in space.spaces]
            fits = len(value) == len(parts)
        except (KeyError, TypeError, IndexError):
            fits = False
        if not fits:
            got = sorted(value) if isinstance(value, dict) else type(value).__name__
            raise SpaceError(f"expected a dict with keys {list(space.spaces)}, got {got}")
        return [leaf for child, part in zip(space.spaces.values(), parts, strict=True) for leaf in split(child, part)]
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            got = f"{len(value)} elements" if isinstance(value, (tuple, list)) else type(value).__name__
            raise SpaceError(f"expected a tuple of {len(space.spaces)}, got {got}")
        return [leaf for child, part in zip(space.spaces, value, strict=True) for leaf in split(child, part)]
    return [value]


def join(space: Space, parts: Iterator[Any]) -> Any:
    """The inverse of `split`: takes leaf values from `parts` in order."""
    if isinstance(space, spaces.Dict):
        return {key: join(child, parts) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(join(child, parts) for child in space.spaces)
    return next(parts)


# --- the layout of the block ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A named array in the block."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def place(wanted: Sequence[tuple[str, tuple[int, ...], Any]]) -> tuple[list[Field], int]:
    """Lay arrays one after another, each on a cache line of its own; returns the fields and the total size."""
    fields, at = [], 0
    for name, shape, dtype in wanted:
        field = Field(name, shape, np.dtype(dtype), at)
        fields.append(field)
        at += -(-field.nbytes // CACHE_LINE) * CACHE_LINE
    return fields, max(at, CACHE_LINE)


@dataclass(frozen=True)
class BatchSpec:
    """All that determines the layout of the batch; parent and workers compute the same layout from it."""

    observation_space: Space
    action_space: Space
    num_envs: int
    autoreset_mode: AutoresetMode
    exact_actions: bool = True  # room for actions that are given in more bits than their space has

    @property
    def has_objects(self) -> bool:
        """Whether some observations or actions have no fixed size."""
        return any(leaf.dtype is None for leaf in [*leaves(self.observation_space), *leaves(self.action_space)])

    def fields(self) -> tuple[list[Field], int]:
        n = self.num_envs
        wanted: list[tuple[str, tuple[int, ...], Any]] = [
            ("parent", (WORKER_WORDS,), np.int64),
            ("workers", (n, WORKER_WORDS), np.int64),
            ("go", (n,), np.int64),
            ("done", (n,), np.int64),
            ("status", (n,), np.int64),
            ("rewards", (n,), np.float64),
            ("ends", (2, n), np.bool_),  # terminated, truncated: side by side, so that one search finds any end
            ("returns", (n,), np.float64),
            ("lengths", (n,), np.int64),
            ("seconds", (n,), np.float64),
            ("info_values", (INFO_SLOTS, n), np.float64),
            ("info_masks", (INFO_SLOTS, n), np.bool_),
        ]
        kinds = [("observation", self.observation_space), ("action", self.action_space)]
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            kinds.append(("final", self.observation_space))
        for kind, space in kinds:
            for k, leaf in enumerate(leaves(space)):
                if leaf.dtype is not None:
                    wanted.append((f"{kind}/{k}", (n, *leaf.shape), leaf.dtype))
        return place(wanted + self._extra_fields())

    def _extra_fields(self) -> list[tuple[str, tuple[int, ...], Any]]:
        """Columns that only some spaces need, each with a word that says which leaves use it: per segment, whose
        actions are in an `exact` column; per env, which parts of the last observation were plain Python numbers."""
        n, extra = self.num_envs, list[tuple[str, tuple[int, ...], Any]]()
        if self.exact_actions:
            narrow = [(k, leaf) for k, leaf in enumerate(leaves(self.action_space)[:MOST_FLAGGED]) if _is_narrow(leaf)]
            extra += [(f"exact/{k}", (n, *leaf.shape), np.float64) for k, leaf in narrow]
            extra += [("exact", (n,), np.int64)] if narrow else []
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        if same_step and any(leaf.dtype is not None and leaf.shape == () for leaf in leaves(self.observation_space)):
            extra.append(("plain_finals", (n,), np.int64))
        return extra


def _is_narrow(leaf: SpaceLeaf) -> bool:
    return leaf.dtype is not None and leaf.dtype.kind == "f" and leaf.dtype.itemsize < 8


def scalars(array: np.ndarray) -> Any:
    """The array for reading and writing one element at a time: 0.03 us each, where NumPy takes 0.09."""
    return memoryview(array)  # type: ignore[arg-type]


def check_count(num_envs: int, compiled: bool) -> None:
    """Refuse more envs than could be listed, before a list of them is made."""
    each = LISTED_BYTES if compiled else LISTED_BYTES + PYTHON_ENV_BYTES
    needed, free = num_envs * each, available_memory()
    if needed > free:
        raise MemoryShortage(
            f"{num_envs} envs need {size_text(needed)} of memory for a list of them alone, but only "
            f"{size_text(free)} is free; num_envs={max(1, free // 2 // each)} would fit"
        )


def check_workers(workers: int) -> None:
    """Refuse more workers than this machine can run, before the first one is started."""
    if workers > FEWEST_PROCESSES and workers > (most := most_processes()):
        raise OptionError(
            f"workers={workers} are more processes or threads than this machine can run, about {most}; "
            f"workers={usable_cores()} would be one for each core"
        )


def check_memory(observation_space: Space, action_space: Space, num_envs: int) -> None:
    """Refuse a batch that does not fit, before anything of its size is made. Gymnasium's batched spaces count too:
    two bounds and two masks for every element of a Box."""
    rows = BatchSpec(observation_space, action_space, num_envs, AutoresetMode.NEXT_STEP).fields()[1]
    bounds = sum(
        num_envs * int(np.prod(leaf.shape, dtype=np.int64)) * 2 * (leaf.dtype.itemsize + 1)
        for leaf in [*leaves(observation_space), *leaves(action_space)]
        if isinstance(leaf.space, spaces.Box) and leaf.dtype is not None
    )
    free = available_memory()
    if rows + bounds > free:
        raise MemoryShortage(
            f"{num_envs} envs need {size_text(rows + bounds)} of memory for their arrays ({size_text(rows)} of it "
            f"shared), but only {size_text(free)} is free; use fewer envs or smaller observations"
        )


# --- the arrays -------------------------------------------------------------------------------------------------------


class Columns:
    """One nested space over all envs: an array per array leaf, a list of objects per object leaf."""

    def __init__(self, space: Space, arrays: dict[str, np.ndarray], kind: str, n: int) -> None:
        self.space = space
        self.leaves: list[SpaceLeaf] = leaves(space)
        self.columns: list[Any] = [
            [None] * n if leaf.dtype is None else arrays[f"{kind}/{k}"] for k, leaf in enumerate(self.leaves)
        ]
        self.object_leaves = [k for k, leaf in enumerate(self.leaves) if leaf.dtype is None]
        flat = len(self.leaves) == 1 and not self.leaves[0].path and not self.object_leaves
        self.flat_leaf = self.leaves[0] if flat else None  # the common case of a space that is one array
        self.only_array: Any = self.columns[0] if flat else None
        self.exact = {k: arrays[f"exact/{k}"] for k in range(len(self.leaves)) if f"exact/{k}" in arrays}
        # Per env: which leaves of a last observation were Python numbers, to be given out as such.
        self.plain = scalars(arrays["plain_finals"]) if kind == "final" and "plain_finals" in arrays else None

    def take(self, rows: slice | np.ndarray, copy: bool = True) -> Any:
        """The batched value of some envs, nested as Gymnasium batches this space."""
        if self.only_array is not None:
            part = self.only_array if rows is ALL else self.only_array[rows]
            return part.copy() if copy and isinstance(rows, slice) else part
        return join(self.space, (self._take_leaf(column, rows, copy) for column in self.columns))

    def _take_leaf(self, column: Any, rows: slice | np.ndarray, copy: bool) -> Any:
        if isinstance(column, list):
            return tuple(column[rows] if isinstance(rows, slice) else [column[r] for r in rows])
        part = column[rows]
        return part.copy() if copy and isinstance(rows, slice) else part

    def row(self, r: int) -> Any:
        """One env's value, as a copy that nothing will overwrite."""
        plain = 0 if self.plain is None else self.plain[r]
        parts = [column[r] if isinstance(column, list) else column[r].copy() for column in self.columns]
        if plain:
            parts = [part.item() if plain >> k & 1 else part for k, part in enumerate(parts)]
        return join(self.space, iter(parts))

    def put(self, rows: slice | np.ndarray, value: Any, count: int) -> int:
        """Store a batched value for some envs, checking shapes; used for actions. Returns which leaves are in their
        exact column, one bit each: float64 actions of a float32 space reach the env as they are."""
        flat = self.flat_leaf  # the common case, at a third of the cost of finding out why a value does not fit
        if (
            flat is not None
            and type(value) is np.ndarray
            and (value.dtype is flat.dtype or value.dtype == flat.dtype)  # unpickled dtypes are equal, not the same
            and value.shape == (count, *flat.shape)
        ):
            self.only_array[rows] = value
            return 0
        flags = 0
        for k, (leaf, column, part) in enumerate(zip(self.leaves, self.columns, split(self.space, value), strict=True)):
            if leaf.dtype is None:
                self._put_objects(leaf, column, rows, part, count)
            else:
                flags |= self._put_array(leaf, column, rows, part, count, self.exact.get(k)) << k
        return flags

    def _put_array(
        self, leaf: SpaceLeaf, column: np.ndarray, rows: slice | np.ndarray, part: Any, count: int, exact: Any
    ) -> bool:
        try:
            array = np.asarray(part)
        except ValueError:  # a ragged list
            array = np.asarray(part, dtype=object)
        if array.shape != (count, *leaf.shape):
            wrong = SpaceError if array.ndim else ActionTypeError
            raise wrong(
                f"actions{leaf.name} should have shape {(count, *leaf.shape)} ({count} envs of {leaf.space}), "
                f"got shape {array.shape}"
            )
        assert leaf.dtype is not None
        if array.dtype != leaf.dtype:
            array = _cast(leaf, leaf.dtype, array)
            if exact is not None and not np.can_cast(array.dtype, leaf.dtype):
                exact[rows] = array
                return True
        column[rows] = array
        return False

    def _put_objects(self, leaf: SpaceLeaf, column: list, rows: slice | np.ndarray, part: Any, count: int) -> None:
        items = list(part) if isinstance(part, Iterable) and not isinstance(part, str) else [part]
        if len(items) != count:
            raise SpaceError(f"actions{leaf.name} should be {count} values of {leaf.space}, got {len(items)}")
        ids = range(*rows.indices(len(column))) if isinstance(rows, slice) else rows
        for r, item in zip(ids, items, strict=True):
            column[r] = item


def _cast(leaf: SpaceLeaf, dtype: np.dtype, array: np.ndarray) -> np.ndarray:
    """Actions in their column's dtype: integers of any size whose values fit, else numbers of the same kind."""
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        cast = array.astype(dtype)
        wrong = array[cast != array]
        if wrong.size:
            raise SpaceError(f"actions{leaf.name} hold {wrong[0]}, which {dtype} ({leaf.space}) cannot")
        return cast
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise SpaceError(f"actions{leaf.name} should have dtype {dtype} ({leaf.space}), got {array.dtype}")
    return array


class Batch:
    """Views into a block laid out by a `BatchSpec`. `buffer` may be a bytearray or a shared mmap."""

    def __init__(self, spec: BatchSpec, buffer: Any) -> None:
        self.spec, self.buffer = spec, buffer
        fields, self.nbytes = spec.fields()
        a = {
            f.name: np.frombuffer(buffer, f.dtype, int(np.prod(f.shape, dtype=np.int64)), f.offset).reshape(f.shape)
            for f in fields
        }
        self.rewards, self.ends = a["rewards"], a["ends"]
        self.terminated, self.truncated = self.ends
        self.returns, self.lengths, self.seconds = a["returns"], a["lengths"], a["seconds"]
        self.info_values, self.info_masks = a["info_values"], a["info_masks"]
        n = spec.num_envs
        self.observations = Columns(spec.observation_space, a, "observation", n)
        self.actions = Columns(spec.action_space, a, "action", n)
        same_step = spec.autoreset_mode is AutoresetMode.SAME_STEP
        self.finals = Columns(spec.observation_space, a, "final", n) if same_step else None
        self.parent_words, self.worker_words = scalars(a["parent"]), scalars(a["workers"].reshape(-1))
        self.go, self.done, self.status = (scalars(a[name]) for name in ("go", "done", "status"))
        self.exact = scalars(a["exact"]) if "exact" in a else None
        (ends,) = (f for f in fields if f.name == "ends")
        self._ends_range = ends.offset, ends.offset + ends.nbytes

    def any_end(self) -> bool:
        """Whether any env's episode ended in this step (a search over bytes: 0.1 us, where `.any()` takes 2)."""
        return self.buffer.find(b"\x01", *self._ends_range) >= 0


def private_batch(spec: BatchSpec) -> Batch:
    """A batch in this process's own memory, for the serial and thread backends."""
    return Batch(spec, bytearray(spec.fields()[1]))
