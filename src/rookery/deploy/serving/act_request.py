"""Requests for actions and their answers: JSON, .npy files, and plain bytes whose type and shape are in headers.

Nothing of a request is trusted: no pickle is read, no memory is allocated before the sizes fit the body, and
observations are checked against the agent's spaces.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError, SpaceError
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, Leaf, at_path, choices_in

KEYS = ("observations", "deterministic", "action_masks", "session", "starts")
MOST_ROWS = 65_536  # observations in one request
LONGEST_SESSION = 200  # characters of a session's name
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, OverflowError)
JSON, BYTES, NPY = "application/json", "application/octet-stream", "application/x-npy"
NPY_MAGIC = b"\x93NUMPY"
DTYPE, SHAPE, VERSION = "x-dtype", "x-shape", "x-version"
DETERMINISTIC, SESSION, STARTS = "x-deterministic", "x-session", "x-starts"
MOST_AXES = 8
MOST_LISTS = 1_000_000  # in one body of JSON
# The header of a .npy file of numbers, as NumPy writes it. `np.load` would evaluate it, which takes longer than acting,
# and allocate what it promises.
NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>=|]?[a-z][0-9]{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,200})\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ActRequest:
    """What is requested, as arrays that the agent's network reads."""

    leaves: list[np.ndarray]
    deterministic: bool = True
    mask: np.ndarray | None = None  # [rows, choices]
    session: str | None = None
    starts: np.ndarray | None = None  # rows that begin an episode

    @property
    def rows(self) -> int:
        return len(self.leaves[0])


class Answer(NamedTuple):
    """The actions of a request, and the version of the agent that chose them."""

    actions: Any
    version: int | str


class RequestReader:
    """Makes requests for one agent. What does not fit its spaces raises an OptionError or a SpaceError."""

    def __init__(self, agent: Agent) -> None:
        self._space, self._leaves = agent.observation_space, agent.policy.leaves
        self._choices, self._remembers = choices_in(agent.action_space), bool(agent.policy.memory_size)

    def from_json(self, value: Any) -> ActRequest:
        """From `{"observations": [...], "deterministic": true}`. Observations are a list with one entry for each; those
        of a Dict may also be a dict of lists."""
        if not isinstance(value, dict) or "observations" not in value:
            raise OptionError('the body should be a JSON object such as {"observations": [[0.1, 0.2]]}')
        for key in value.keys() - set(KEYS):
            raise OptionError(f"unknown key {key!r:.60}: a request may have {', '.join(KEYS)}")
        observations = value["observations"]
        by_part = isinstance(self._space, spaces.Dict) and isinstance(observations, dict)
        if not by_part and not isinstance(observations, list):
            raise OptionError(f"`observations` should be a list of observations, got {_kind(observations)}")
        leaves = [_checked(leaf, _column(observations, leaf.path, by_part)) for leaf in self._leaves]
        masks = value.get("action_masks")
        if masks is None and isinstance(self._space, spaces.Dict) and MASK_KEY in self._space.spaces:
            masks = _column(observations, (MASK_KEY,), by_part)
        return self._request(leaves, value.get("deterministic", True), masks, value.get("session"), value.get("starts"))

    def from_array(
        self, observations: np.ndarray, deterministic: bool = True, session: str | None = None, starts: Any = None
    ) -> ActRequest:
        """From one array, [batch, ...]."""
        if len(self._leaves) != 1 or self._leaves[0].path:
            parts = ", ".join(leaf.name for leaf in self._leaves)
            raise SpaceError(f"an observation has several parts ({parts}), and an array is only one: send JSON")
        return self._request([_checked(self._leaves[0], observations)], deterministic, None, session, starts)

    def _request(
        self, leaves: list[np.ndarray], deterministic: Any, masks: Any, session: Any, starts: Any
    ) -> ActRequest:
        rows = len(leaves[0])
        for leaf, values in zip(self._leaves, leaves, strict=True):
            if len(values) != rows:
                raise SpaceError(f"{leaf.name} has {len(values)} rows, and {self._leaves[0].name} has {rows}")
        if not 0 < rows <= MOST_ROWS:
            raise SpaceError(f"a request should have 1 to {MOST_ROWS} observations, got {rows}")
        if not isinstance(deterministic, bool):
            raise OptionError(f"`deterministic` should be true or false, got {deterministic!r:.60}")
        mask = None if masks is None else self._mask(masks, rows)
        return ActRequest(leaves, deterministic, mask, self._session(session), self._starts(starts, rows))

    def _mask(self, masks: Any, rows: int) -> np.ndarray:
        if self._choices is None:
            raise SpaceError("`action_masks` is for discrete actions, and this agent's are not")
        mask = _numbers("action_masks", masks)
        if mask.shape != (rows, self._choices):
            raise SpaceError(f"`action_masks` should be of shape {(rows, self._choices)}, got {mask.shape}")
        mask = mask.astype(bool)
        if not mask.any(1).all():
            raise SpaceError(f"`action_masks` allows no action in row {int(mask.any(1).argmin())}")
        return mask

    def _session(self, session: Any) -> str | None:
        if session is not None and not (isinstance(session, str) and 0 < len(session) <= LONGEST_SESSION):
            raise OptionError(f"`session` should be a text of 1 to {LONGEST_SESSION} characters")
        if self._remembers and session is None:
            raise OptionError(
                "this agent is recurrent: give `session`, a name of your own for the episodes that are played, so that "
                "the server keeps their memory, and `starts` where an episode begins"
            )
        if not self._remembers and session is not None:
            raise OptionError("`session` is for recurrent agents, and this one has no memory")
        return session

    def _starts(self, starts: Any, rows: int) -> np.ndarray | None:
        if starts is None:
            return None
        if not self._remembers:
            raise OptionError("`starts` is for recurrent agents, and this one has no memory")
        given = np.full(rows, starts) if isinstance(starts, bool) else _numbers("starts", starts)
        if given.shape != (rows,):
            raise SpaceError(f"`starts` should be true, false or a list of {rows} of them, got shape {given.shape}")
        return given.astype(bool)


def _column(observations: Any, path: tuple[str | int, ...], by_part: bool) -> Any:
    try:
        if by_part:
            return at_path(observations, path)
        return [at_path(row, path) for row in observations] if path else observations
    except UNREADABLE:
        name = ".".join(map(str, path))
        raise SpaceError(f"every observation should have a part {name!r}, as the agent's world gives it") from None


def _checked(leaf: Leaf, values: Any) -> np.ndarray:
    """The values of a leaf as its network reads them; wrong shapes, NaN and values out of bounds are rejected."""
    array = _numbers(leaf.name, values)
    if array.ndim == 0 or array.shape[1:] != leaf.shape:
        wanted = f"({', '.join(['batch', *map(str, leaf.shape)])})"
        hint = ": put a single observation in a list" if array.shape == leaf.shape else ""
        raise SpaceError(f"{leaf.name} should be of shape {wanted}, got {array.shape}{hint}")
    if leaf.kind == "choice":
        return _choices(leaf, array)
    if leaf.byte:
        return _bytes(leaf, array)
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(numbers).all():
        row = int(np.isfinite(numbers).reshape(len(numbers), -1).all(1).argmin())
        raise SpaceError(f"{leaf.name} has NaN or infinity in row {row}")
    return numbers


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise SpaceError(f"{name} should be numbers, with equally many in each row") from None
    if array.dtype.kind not in "biuf":
        raise SpaceError(f"{name} should be numbers, got {_kind(values)} of other values")
    return array


def _choices(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    starts = np.array(leaf.starts).reshape(leaf.shape)
    ends = starts + np.array(leaf.sizes).reshape(leaf.shape)
    whole = array if array.dtype.kind != "f" else np.where(np.isfinite(array), array, starts - 1)
    if not ((whole >= starts) & (whole < ends) & (whole == np.floor(whole))).all():
        raise SpaceError(f"{leaf.name} should be integers from {starts.tolist()} to {(ends - 1).tolist()}")
    return np.ascontiguousarray(whole, np.int64)


def _bytes(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 and not ((array >= 0) & (array <= 255) & (array == np.floor(array))).all():
        raise SpaceError(f"{leaf.name} should be integers from 0 to 255")
    return np.ascontiguousarray(array, np.uint8)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


class UnknownBody(OptionError):
    """The type of the body is none that is read."""


def read_request(reader: RequestReader, body: bytes, headers: Mapping[str, str]) -> ActRequest:
    """The request in a body; an OptionError or a SpaceError says what is wrong with it."""
    kind = _body_kind(body, headers)
    if kind == JSON:
        if body.count(b"[") + body.count(b"{") > MOST_LISTS:  # three bytes of text would be 64 of memory
            raise OptionError(f"the body has more than {MOST_LISTS:,} lists: send a .npy file, or fewer observations")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise OptionError(f"the body is not JSON: {str(error)[:200]}") from None
        return reader.from_json(value)
    array = _npy_array(body) if kind == NPY else _plain_array(body, headers)
    starts = headers.get(STARTS)
    return reader.from_array(
        array,
        _flag(headers, DETERMINISTIC, "true"),
        headers.get(SESSION),
        None if starts is None else _flag(headers, STARTS, ""),
    )


def write_answer(answer: Answer, request_body: bytes, request_headers: Mapping[str, str]) -> tuple[bytes, dict]:
    """Body and headers of an answer, of the kind that the request was. Actions of several parts are always JSON."""
    kind = _body_kind(request_body, request_headers)
    if kind == JSON or not isinstance(answer.actions, np.ndarray):
        value = {"actions": _listed(answer.actions), "version": answer.version}
        return json.dumps(value).encode(), {"content-type": JSON}
    headers = {"content-type": kind, VERSION: str(answer.version)}
    if kind == NPY:
        return _npy_header(answer.actions.dtype, answer.actions.shape) + answer.actions.tobytes(), headers
    shape = ",".join(map(str, answer.actions.shape))
    return answer.actions.tobytes(), {**headers, DTYPE: answer.actions.dtype.name, SHAPE: shape}


def _body_kind(body: bytes, headers: Mapping[str, str]) -> str:
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind in (BYTES, NPY) and (kind == NPY or (DTYPE not in headers and body.startswith(NPY_MAGIC))):
        return NPY
    if kind in (JSON, BYTES):
        return kind
    raise UnknownBody(f"the type of the body should be {JSON}, {NPY} or {BYTES}, got {kind!r:.80}")


def _npy_array(body: bytes) -> np.ndarray:
    """An array from the bytes of a .npy file."""
    header = NPY_HEADER.match(body)
    if header is None or header.end() != 10 + int.from_bytes(header[1], "little"):
        raise OptionError("the body is not a .npy file of numbers, as `np.save` writes it")
    shape = tuple(int(size) for size in header[4].replace(b" ", b"").split(b",") if size)
    try:
        dtype = np.dtype(header[2].decode())
    except TypeError:
        raise OptionError(f"the type {header[2].decode()!r} of the .npy file is unknown") from None
    array = _array(body[header.end() :], dtype, shape)
    return array if header[3] == b"False" else array.reshape(shape[::-1]).T


@lru_cache(maxsize=256)
def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.empty(shape, dtype), allow_pickle=False)
    whole = file.getvalue()
    return whole[: len(whole) - math.prod(shape) * dtype.itemsize]


def _plain_array(body: bytes, headers: Mapping[str, str]) -> np.ndarray:
    if DTYPE not in headers or SHAPE not in headers:
        raise OptionError(f"plain bytes need the headers {DTYPE}, such as float32, and {SHAPE}, such as 16,4")
    try:
        shape = tuple(int(size) for size in headers[SHAPE].split(",") if size.strip())
        dtype = np.dtype(headers[DTYPE].strip())
    except (ValueError, TypeError, SyntaxError):
        raise OptionError(
            f"the headers {DTYPE} and {SHAPE} should be such as float32 and 16,4, got {headers[DTYPE]!r:.60} and "
            f"{headers[SHAPE]!r:.60}"
        ) from None
    return _array(body, dtype, shape)


def _array(data: bytes, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise OptionError(f"observations should be an array of bool, integers or floats, got {str(dtype)!r:.60}")
    if len(shape) > MOST_AXES or any(size < 0 for size in shape) or not data:
        raise OptionError(f"the shape {shape!s:.80} cannot be that of a batch of observations")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != len(data):
        raise OptionError(
            f"an array of {dtype} and shape {shape!s:.80} has {wanted} bytes, and the body has {len(data)}"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _flag(headers: Mapping[str, str], name: str, default: str) -> bool:
    text = headers.get(name, default).strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise OptionError(f"the header {name} should be true or false, got {text!r:.60}")
    return text in ("true", "1")


def _listed(actions: Any) -> list[Any]:
    """One entry for each observation, as JSON has it."""
    if isinstance(actions, dict):
        parts = {key: _listed(part) for key, part in actions.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    if isinstance(actions, tuple):
        return [list(row) for row in zip(*map(_listed, actions), strict=True)]
    return np.asarray(actions).tolist()
