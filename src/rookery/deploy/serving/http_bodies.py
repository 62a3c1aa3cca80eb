"""Bodies of requests and responses: JSON, .npy files, and plain bytes whose type and shape are in headers.

Nothing of a request is trusted: no pickle is read, and no memory is allocated before the sizes fit the body.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from rookery.deploy.serving.act_request import ActRequest, RequestReader
from rookery.deploy.serving.batching import Answer
from rookery.errors import OptionError

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


class UnknownBody(OptionError):
    """The type of the body is none that is read."""


def read_request(reader: RequestReader, body: bytes, headers: Mapping[str, str]) -> ActRequest:
    """The request in a body; an OptionError or a SpaceError says what is wrong with it."""
    kind = _kind(body, headers)
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
    kind = _kind(request_body, request_headers)
    if kind == JSON or not isinstance(answer.actions, np.ndarray):
        value = {"actions": _listed(answer.actions), "version": answer.version}
        return json.dumps(value).encode(), {"content-type": JSON}
    headers = {"content-type": kind, VERSION: str(answer.version)}
    if kind == NPY:
        return _npy_header(answer.actions.dtype, answer.actions.shape) + answer.actions.tobytes(), headers
    shape = ",".join(map(str, answer.actions.shape))
    return answer.actions.tobytes(), {**headers, DTYPE: answer.actions.dtype.name, SHAPE: shape}


def _kind(body: bytes, headers: Mapping[str, str]) -> str:
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
        raise OptionError("the body is no .npy file of numbers, as `np.save` writes it")
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
