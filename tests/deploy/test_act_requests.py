"""Requests for actions: what is read, and what is rejected with a sentence. Nothing else can come of any body."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.serving_agents import make_agent
from rookery.deploy.serving.act_request import Answer, RequestReader, UnknownBody, read_request, write_answer
from rookery.errors import OptionError, SpaceError

DICT = spaces.Dict(
    camera=spaces.Box(0, 255, (12, 12, 1), np.uint8),
    gear=spaces.Discrete(3, start=1),
    speed=spaces.Box(-1, 1, (2,), np.float32),
    action_mask=spaces.MultiBinary(3),
)
ROW = {"camera": np.zeros((12, 12, 1), int).tolist(), "gear": 2, "speed": [0.5, -0.5], "action_mask": [1, 0, 1]}
NPY, BYTES = {"content-type": "application/x-npy"}, {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def reader() -> RequestReader:
    return RequestReader(make_agent())


@pytest.fixture(scope="module")
def dict_reader() -> RequestReader:
    return RequestReader(make_agent(DICT))


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_json_bytes_and_npy_are_the_same_request(reader: RequestReader) -> None:
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    requests = [
        reader.from_json({"observations": observations.tolist()}),
        read_request(reader, npy(observations), NPY),
        read_request(reader, npy(observations), BYTES),
        read_request(reader, npy(np.asfortranarray(observations)), NPY),
        read_request(reader, npy(observations.astype(">f8")), NPY),
        read_request(reader, observations.tobytes(), {**BYTES, "x-dtype": "float32", "x-shape": "5,4"}),
        read_request(reader, json.dumps({"observations": observations.tolist()}).encode(), {}),
    ]
    for request in requests:
        assert (request.leaves[0] == observations).all() and request.leaves[0].dtype == np.float32
        assert request.deterministic and request.rows == 5
    assert not read_request(reader, npy(observations), {**NPY, "x-deterministic": "False"}).deterministic


def test_dict_observations_may_come_by_row_or_by_part(dict_reader: RequestReader) -> None:
    by_row = dict_reader.from_json({"observations": [ROW, ROW]})
    by_part = dict_reader.from_json({"observations": {key: [value, value] for key, value in ROW.items()}})
    for one, other in zip(by_row.leaves, by_part.leaves, strict=True):
        assert one.dtype == other.dtype and (one == other).all()
    assert by_row.mask is not None and by_row.mask.tolist() == [[True, False, True]] * 2
    assert by_part.mask is not None and (by_row.mask == by_part.mask).all()


def test_tuple_observations_come_by_row() -> None:
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))
    request = RequestReader(make_agent(space)).from_json({"observations": [[1, [0.5, 0.5]], [2, [0.1, 0.1]]]})
    assert [leaf.shape for leaf in request.leaves] == [(2,), (2, 2)]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [([], "should be a JSON object"),
     ({}, "should be a JSON object"),
     ({"observations": [[1, 2, 3, 4]], "obs": 1}, "unknown key 'obs'"),
     ({"observations": []}, r"should be of shape \(batch, 4\), got \(0,\)"),
     ({"observations": {"a": 1}}, "should be a list of observations, got an object"),
     ({"observations": None}, "got null"),
     ({"observations": [1, 2, 3, 4]}, "put a single observation in a list"),
     ({"observations": [[1, 2, 3]]}, r"shape \(batch, 4\), got \(1, 3\)"),
     ({"observations": [[1, 2, 3, 4], [1]]}, "equally many in each row"),
     ({"observations": [[1, 2, 3, "4"]]}, "should be numbers"),
     ({"observations": [[1, 2, 3, None]]}, "should be numbers"),
     ({"observations": [[1, 2, 3, 10**40]]}, "should be numbers"),
     ({"observations": [[1, 2, 3, 4], [1, 2, 3, float("nan")]]}, "NaN or infinity in row 1"),
     ({"observations": [[1, 2, 3, 1e300]]}, "NaN or infinity in row 0"),
     ({"observations": [[1, 2, 3, 4]], "deterministic": 1}, "`deterministic` should be true or false"),
     ({"observations": [[1, 2, 3, 4]], "session": "a"}, "this one has no memory"),
     ({"observations": [[1, 2, 3, 4]], "starts": True}, "this one has no memory"),
     ({"observations": [[1, 2, 3, 4]], "action_masks": [[1, 1]]}, r"should be of shape \(1, 3\), got \(1, 2\)"),
     ({"observations": [[1, 2, 3, 4]], "action_masks": [[0, 0, 0]]}, "allows no action in row 0")],
)  # fmt: skip
def test_what_does_not_fit_is_refused(reader: RequestReader, value: Any, sentence: str) -> None:
    with pytest.raises((OptionError, SpaceError), match=sentence):
        reader.from_json(value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"gear": 4}, "gear should be integers from 1 to 3"),
     ({"gear": 1.5}, "gear should be integers"),
     ({"camera": np.full((12, 12, 1), 256).tolist()}, "camera should be integers from 0 to 255"),
     ({"camera": np.full((12, 12, 1), -1).tolist()}, "camera should be integers from 0 to 255"),
     ({"speed": [1, 2, 3]}, "speed should be of shape"),
     ({"action_mask": [0, 0, 0]}, "allows no action")],
)  # fmt: skip
def test_parts_of_a_dict_are_checked(dict_reader: RequestReader, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpaceError, match=sentence):
        dict_reader.from_json({"observations": [{**ROW, **change}]})
    missing = {key: value for key, value in ROW.items() if key not in change}
    with pytest.raises(SpaceError, match="every observation should have a part"):
        dict_reader.from_json({"observations": [missing]})


def test_masks_are_for_discrete_actions() -> None:
    reader = RequestReader(make_agent(action_space=spaces.Box(-1, 1, (2,), np.float32)))
    with pytest.raises(SpaceError, match="for discrete actions"):
        reader.from_json({"observations": [[1, 2, 3, 4]], "action_masks": [[1, 1]]})


def test_an_array_cannot_be_a_dict(dict_reader: RequestReader) -> None:
    with pytest.raises(SpaceError, match="several parts"):
        read_request(dict_reader, npy(np.zeros((1, 4))), NPY)


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([[print]], object), allow_pickle=True)
HUGE = npy(np.zeros((2, 4), np.float32)).replace(b"(2, 4), }          ", b"(99999999999, 4), }")


@pytest.mark.parametrize(
    ("body", "headers", "sentence"),
    [(b"{", {}, "not JSON"),
     (b"\xff\xfe", {}, "not JSON"),
     (b"[" * 100_000, {}, "not JSON"),
     (b'{"observations": ' + b"1" * 5000 + b"}", {}, "not JSON"),
     (b"x", {"content-type": "text/html"}, "the type of the body should be"),
     (b"", NPY, "not a .npy file"),
     (OBJECTS.getvalue(), NPY, "not a .npy file"),
     (HUGE, NPY, "bytes, and the body has 32"),
     (npy(np.zeros((2, 4), np.float32))[:-1], NPY, "has 32 bytes, and the body has 31"),
     (npy(np.zeros((2, 4), complex)), NPY, "bool, integers or floats"),
     (npy(np.zeros((2, 4), "M8[s]")), NPY, "not a .npy file"),
     (b"12345678", BYTES, "need the headers x-dtype"),
     (b"12345678", {**BYTES, "x-dtype": "O", "x-shape": "1"}, "bool, integers or floats"),
     (b"12345678", {**BYTES, "x-dtype": "f4,f4", "x-shape": "1"}, "bool, integers or floats"),
     (b"12345678", {**BYTES, "x-dtype": "nothing", "x-shape": "1"}, "should be such as float32"),
     (b"12345678", {**BYTES, "x-dtype": "float32", "x-shape": "-1,2"}, "cannot be that of a batch"),
     (b"12345678", {**BYTES, "x-dtype": "float32", "x-shape": "a"}, "should be such as float32"),
     (b"12345678", {**BYTES, "x-dtype": "float32", "x-shape": "1,2"}, "should be of shape"),
     (npy(np.full((1, 4), np.nan)), NPY, "NaN or infinity"),
     (npy(np.zeros((1, 4))), {**NPY, "x-deterministic": "maybe"}, "should be true or false")],
)  # fmt: skip
def test_bodies_that_are_refused(reader: RequestReader, body: bytes, headers: dict[str, str], sentence: str) -> None:
    with pytest.raises((OptionError, SpaceError), match=sentence):
        read_request(reader, body, headers)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(value=json_values, masks=json_values, flag=json_values)
def test_any_json_is_read_or_refused(value: Any, masks: Any, flag: Any) -> None:
    body = json.dumps({"observations": value, "action_masks": masks, "deterministic": flag}).encode()
    for reader in READERS:
        try:
            request = read_request(reader, body, {})
        except (OptionError, SpaceError):
            continue
        assert request.rows > 0


any_bytes = st.binary(max_size=64)
kinds = st.sampled_from(["application/octet-stream", "application/x-npy", "application/json", "text/x"])
array_headers = {
    "x-dtype": st.text(max_size=6) | st.sampled_from(["f4", "i1"]),
    "x-shape": st.text("0123456789,-", max_size=12),
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    body=any_bytes | any_bytes.map(lambda tail: npy(np.zeros((2, 4), np.float32))[:-9] + tail),
    headers=st.fixed_dictionaries({"content-type": kinds}, optional=array_headers),
)
def test_any_bytes_are_read_or_refused(body: bytes, headers: dict[str, str]) -> None:
    for reader in READERS:
        try:
            request = read_request(reader, body, headers)
        except (OptionError, SpaceError):
            continue
        assert request.rows > 0


READERS = [RequestReader(make_agent()), RequestReader(make_agent(DICT)), RequestReader(make_agent(spaces.Discrete(3)))]


def header(text: str) -> bytes:
    """A .npy file of 32 bytes with any header."""
    line = text.encode() + b" \n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + bytes(32)


@pytest.mark.parametrize("dtype", ["<f4", "<f3", "|O", "<U9", "<x1", "|V4", "<f16", "=q99"])
@pytest.mark.parametrize(
    "shape",
    ["1000000000000,", "-1, 4", "0, 1000000000000000000000000000000", "9" * 199, "1, " * 60, "2, 4, 0", "10**9, 4",
     "1 0 0 0 0 0 0 0 0 0 0 0, 4", "__import__('os')", ""],
)  # fmt: skip
@pytest.mark.parametrize("order", ["False", "True"])
def test_no_header_allocates(reader: RequestReader, dtype: str, shape: str, order: str) -> None:
    """All are rejected before anything is made of their sizes."""
    body = header(f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}")
    tracemalloc.start()
    with pytest.raises((OptionError, SpaceError)):
        read_request(reader, body, NPY)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, "(" * 60_000, "{'descr': " * 5_000, "{'descr': '<f4', 'shape': (2, 4), }",
     "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
     "9" * 60_000, "1" + "+1" * 30_000, "'x' * 10**9", "\0" * 1000],
)  # fmt: skip
def test_headers_are_never_evaluated(reader: RequestReader, text: str) -> None:
    with pytest.raises(OptionError, match=r"\.npy"):
        read_request(reader, header(text), NPY)


def test_a_body_of_empty_lists_takes_no_memory(reader: RequestReader) -> None:
    """5 million lists in 15 MB of text would take 400 MB."""
    with pytest.raises(OptionError, match="lists"):
        read_request(reader, b'{"observations": [' + b"[]," * 5_000_000 + b"[]]}", {})


def test_answers_are_of_the_kind_of_the_request() -> None:
    actions = np.array([[0.5, 1.0]], np.float32)
    body, headers = write_answer(Answer(actions, 3), b"{}", {})
    assert json.loads(body) == {"actions": [[0.5, 1.0]], "version": 3} and headers["content-type"] == "application/json"
    body, headers = write_answer(Answer(actions, 3), b"", NPY)
    assert (np.load(io.BytesIO(body)) == actions).all() and headers["x-version"] == "3"
    body, headers = write_answer(Answer(actions, 3), b"", {**BYTES, "x-dtype": "f4"})
    assert body == actions.tobytes() and (headers["x-dtype"], headers["x-shape"]) == ("float32", "1,2")
    with pytest.raises(UnknownBody):
        write_answer(Answer(actions, 3), b"", {"content-type": "image/png"})


def test_actions_of_several_parts_are_lists_of_them() -> None:
    actions = {"arm": np.array([1, 2]), "both": (np.array([[0.5], [1.5]]), np.array([3, 4]))}
    body, _ = write_answer(Answer(actions, "run"), b"", NPY)
    assert json.loads(body)["actions"] == [{"arm": 1, "both": [[0.5], 3]}, {"arm": 2, "both": [[1.5], 4]}]
