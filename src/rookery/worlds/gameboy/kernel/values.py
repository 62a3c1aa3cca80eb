"""A profile's values, observation, rewards and conditions, as compiled code finds them in its tables."""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import whole
from rookery.worlds.gameboy.kernel.bus import read_register
from rookery.worlds.gameboy.kernel.cartridge import read_ram
from rookery.worlds.gameboy.kernel.layout import FIRST as FIRST_ADDRESS
from rookery.worlds.gameboy.kernel.profile_tables import (
    ADDRESS,
    BCD,
    BIG_ENDIAN,
    CHANGE,
    COMPARES,
    COUNT,
    DIFFERS,
    DOWN,
    ENTRY_BYTES,
    FIRST,
    FIRST_CHOICE,
    FIRST_VISIT,
    HIGH,
    HIGH_OF,
    JUMP,
    KEY_BYTES,
    KIND,
    LEAST,
    LEFT,
    LOW,
    LOW_OF,
    MASK,
    ONCE,
    ONE_OF,
    OTHER,
    PARTS,
    PLACES,
    RIGHT,
    SAME,
    SHIFT,
    SIGN,
    SIZE,
    STEP,
    TERM,
    UP,
    VALUE,
    VISITED,
    WHEN,
    WIDTH,
)


def peek(state: Any, memory: Any, address: int) -> int:
    """A byte from 8000 on, as the program would read it if nothing were locked."""
    if address >= 0xA000 and address < 0xC000:
        return read_ram(state, memory, address)
    if address >= 0xFF00 and address < 0xFF80:
        return read_register(state, memory, address - FIRST_ADDRESS)
    return whole(memory[address - FIRST_ADDRESS])


def read_values(state: Any, memory: Any, tables: Any) -> None:
    """Read all values of the profile."""
    for k in range(len(tables.values)):
        state.values[k] = _read_value(state, memory, tables.values[k])


def _read_value(state: Any, memory: Any, place: Any) -> int:
    value, tens = 0, 1
    for k in range(place[SIZE]):
        byte = peek(state, memory, place[ADDRESS] + (place[SIZE] - 1 - k if place[BIG_ENDIAN] else k))
        if place[BCD]:
            value += tens * (10 * (byte >> 4) + (byte & 15))
            tens *= 100
        else:
            value |= byte << 8 * k
    return value if place[BCD] else (((value & place[MASK]) >> place[SHIFT]) ^ place[SIGN]) - place[SIGN]


def see(state: Any, tables: Any, out: Any) -> None:
    """Write the observation of the values."""
    at = 0
    for k in range(len(tables.features)):
        seen, bounds = tables.features[k], tables.bounds[k]
        value = state.values[seen[VALUE]]
        if seen[KIND] == ONE_OF:
            for choice in range(seen[WIDTH]):
                out[at + choice] = 1.0 if value == tables.choices[seen[FIRST_CHOICE] + choice] else 0.0
        elif seen[KIND] == SAME:
            out[at] = 1.0 if value == _bound(state, seen[OTHER], bounds[LOW]) else 0.0
        else:
            out[at] = _scaled(state, seen, bounds, value)
        at += seen[WIDTH]
    for k in range(at, len(out)):
        out[k] = 0.0


def _scaled(state: Any, seen: Any, bounds: Any, value: int) -> float:
    if seen[OTHER] >= 0:
        value -= state.values[seen[OTHER]]
    low = _bound(state, seen[LOW_OF], bounds[LOW])
    span = _bound(state, seen[HIGH_OF], bounds[HIGH]) - low
    share = (value - low) / span if span > 0 else 0.0
    return min(max(share, bounds[LEAST]), 1.0)


def _bound(state: Any, which: int, number: float) -> float:
    """A value, or else a number."""
    return number if which < 0 else float(state.values[which])


def holds(state: Any, tables: Any, first: int, count: int) -> bool:
    """Whether all of some comparisons are true."""
    for k in range(first, first + count):
        part = tables.comparisons[k]
        right = tables.factors[k] if part[RIGHT] < 0 else tables.factors[k] * state.values[part[RIGHT]]
        if not _compare(float(state.values[part[LEFT]]), part[COMPARES], right):
            return False
    return True


def _compare(left: float, sign: int, right: float) -> bool:
    """By the order of SIGNS: == != <= >= < >."""
    if sign < 2:
        return (left == right) == (sign == 0)
    if sign < 4:
        return left <= right if sign == 2 else left >= right
    return left < right if sign == 4 else left > right


def any_holds(state: Any, tables: Any, conditions: Any) -> bool:
    """Whether any of some conditions is true."""
    for k in range(len(conditions)):  # noqa: SIM110 - compiled code has no `any` of a generator
        if holds(state, tables, conditions[k, 0], conditions[k, 1]):
            return True
    return False


def begin_terms(state: Any, memory: Any, tables: Any) -> None:
    """Begin an episode: the places at its start do not count as new."""
    for k in range(len(tables.terms)):
        term = tables.terms[k]
        state.given[k] = 0
        for byte in range(term[PLACES] * ENTRY_BYTES):
            memory[term[VISITED] + byte] = 0
        if term[TERM] == FIRST_VISIT:
            _visit(state, memory, tables, term)


def reward_of(state: Any, memory: Any, tables: Any) -> float:
    """The reward of a step, from the values before it and now."""
    total = 0.0
    for k in range(len(tables.terms)):
        term = tables.terms[k]
        if term[TERM] == CHANGE:
            total += _change(state, tables, term, tables.weights[k])
        elif term[TERM] == FIRST_VISIT:
            if _is_true(state, tables, term) and _visit(state, memory, tables, term):
                total += tables.weights[k]
        elif term[TERM] == STEP:
            if _is_true(state, tables, term):
                total += tables.weights[k]
        elif not (term[ONCE] and state.given[k]) and _is_true(state, tables, term):
            state.given[k] = 1
            total += tables.weights[k]
    return total


def _is_true(state: Any, tables: Any, term: Any) -> bool:
    return term[WHEN] < 0 or holds(state, tables, term[WHEN], term[PARTS])


def _change(state: Any, tables: Any, term: Any, weight: float) -> float:
    for k in range(term[FIRST], term[FIRST] + term[COUNT]):
        value = tables.named[k]
        difference = state.values[value] - state.before[value]
        if difference != 0:
            if not _is_true(state, tables, term) or abs(difference) >= term[JUMP]:
                return 0.0
            if (term[UP] and difference < 0) or (term[DOWN] and difference > 0):
                return 0.0
            if not term[DIFFERS]:
                return weight
            return weight * (-difference if term[DOWN] else difference)
    return 0.0


def _visit(state: Any, memory: Any, tables: Any, term: Any) -> bool:
    """Remember the values of a term. Whether they are new in this episode."""
    key, places = 0, term[PLACES]
    for k in range(term[FIRST], term[FIRST] + term[COUNT]):
        bits = 8 * tables.values[tables.named[k], SIZE]
        key = (key << bits) | (state.values[tables.named[k]] & ((1 << bits) - 1))
    at = (key ^ key >> 15 ^ key >> 31) * 40503 & (places - 1)
    for _ in range(places):
        entry = term[VISITED] + at * ENTRY_BYTES
        if whole(memory[entry]) == 0:
            memory[entry] = 1
            for k in range(KEY_BYTES):
                memory[entry + 1 + k] = key >> 8 * k & 0xFF
            return True
        if _holds_key(memory, entry, key):
            return False
        at = (at + 1) & (places - 1)
    return False


def _holds_key(memory: Any, entry: int, key: int) -> bool:
    for k in range(KEY_BYTES):  # noqa: SIM110 - as above
        if whole(memory[entry + 1 + k]) != key >> 8 * k & 0xFF:
            return False
    return True
