"""A request for actions: observations that have been checked against the agent's spaces, one row per observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError, SpaceError
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, Leaf, choices_in

KEYS = ("observations", "deterministic", "action_masks", "session", "starts")
MOST_ROWS = 65_536  # observations in one request
LONGEST_SESSION = 200  # characters of a session's name
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, OverflowError)


@dataclass(frozen=True, slots=True)
class ActRequest:
    """What is asked for, as arrays that the agent's network reads."""

    leaves: list[np.ndarray]
    deterministic: bool = True
    mask: np.ndarray | None = None  # [rows, choices]
    session: str | None = None
    starts: np.ndarray | None = None  # rows that begin an episode

    @property
    def rows(self) -> int:
        return len(self.leaves[0])


class RequestReader:
    """Makes requests for one agent. What does not fit its spaces is an OptionError or a SpaceError in one sentence."""

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
    """One part of all observations."""
    try:
        return (
            _at(observations, path) if by_part else [_at(row, path) for row in observations] if path else observations
        )
    except UNREADABLE:
        name = ".".join(map(str, path))
        raise SpaceError(f"every observation should have a part {name!r}, as the agent's world gives it") from None


def _at(observation: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _checked(leaf: Leaf, values: Any) -> np.ndarray:
    """The values of a leaf as its network reads them; wrong shapes, NaN and values out of bounds are refused."""
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
