"""Tables: declared, checked, read-only, and part of what a saved state knows."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from numba import njit
from numba.core.compiler import CompilerBase
from numba.core.errors import NumbaError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

import rookery
from kernel.trial_worlds import TraderF4, bars
from rookery import KernelWorld, Table
from rookery.errors import StateError, WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.native import WorldCompiler
from rookery.kernel.native_compiler import frozen
from rookery.kernel.tables import check_same

BARS = bars(200).astype("f4")
RECORDS = np.zeros(3, np.dtype([("a", "f4"), ("n", "f4", (3,))], align=True))


def trader(numbers=BARS, **parameters):
    return TraderF4(bars=numbers, **parameters)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (BARS[:, :4], r"'bars' should have the shape \(any, 5, 7\), got \(200, 4, 7\)"),
        (BARS[0], r"should have the shape \(any, 5, 7\), got \(5, 7\)"),
        (BARS[:0], r"is empty; its shape is \(0, 5, 7\)"),
        (BARS.astype("f8"), r"should hold float32, got float64; .*convert it.*astype\('float32'\)"),
        (BARS.astype("U3"), "should hold float32"),
        ([[1.0], [1.0, 2.0]], "cannot be an array"),
    ],
)
def test_a_table_that_is_not_as_declared_is_refused(numbers, words):
    with pytest.raises(WorldError, match=f"Trader.*{words}"):
        trader(numbers)


def test_a_declared_table_must_be_given():
    with pytest.raises(WorldError, match=r"Trader needs the table 'bars', of shape \(any, 5, 7\): Trader\(bars=...\)"):
        TraderF4()


def test_a_subclass_may_fill_a_table_itself():
    class Own(TraderF4):
        def __init__(self, rows, **parameters):
            self.tables = {"bars": BARS[:rows]}
            super().__init__(**parameters)

    assert Own(150, fee=0.5).table_facts["bars"]["shape"] == [150, 5, 7]


def test_a_table_and_a_parameter_cannot_share_a_name():
    class Confused(TraderF4):
        parameters = {"bars": 1.0}

    with pytest.raises(WorldError, match="'bars' is the name of a table and of a parameter"):
        Confused(bars=BARS)


def test_a_table_cannot_be_written_to_in_plain_python_either(tmp_path):
    """Nor is a file written to that is mapped as a table."""
    np.save(tmp_path / "bars.npy", BARS)

    class Writer(TraderF4):
        @staticmethod
        def step(state, action, tables):
            tables.bars[0, 0, 0] = 9.0
            return 0.0, False

    env = KernelEnv(Writer(bars=np.load(tmp_path / "bars.npy", mmap_mode="r")), plain=True)
    env.reset(seed=1)
    with pytest.raises(TypeError, match="tables, parameters and constants are read-only"):
        env.step(0)
    np.testing.assert_array_equal(np.load(tmp_path / "bars.npy"), BARS)


def test_parameters_cannot_be_written_to_in_plain_python_either():
    class Writer(TraderF4):
        @staticmethod
        def step(state, action, params):
            params.fee = 9.0
            return 0.0, False

    env = KernelEnv(Writer(bars=BARS), plain=True)
    env.reset(seed=1)
    with pytest.raises(TypeError, match="tables, parameters and constants are read-only"):
        env.step(0)
    assert env.parameters["fee"] == 0.001


class CheckingCompiler(CompilerBase):
    """Makes functions, with the passes for functions of worlds, that Python can call."""

    define_pipelines = WorldCompiler.define_pipelines

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.state.numbers = {}  # of functions that are checked


@intrinsic
def read_only(typing_context, array):
    """The same array with a read-only type."""

    def generate(context, builder, signature, arguments):
        return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

    return frozen(array)(array), generate


compiled = njit(pipeline_class=CheckingCompiler)


@compiled
def set_field(record):
    record.a = 1.0


@compiled
def set_nested(record):
    record.n[0] = 1.0


@compiled
def read_all(record):
    return record.a + record.n[2]


def by_field(rows):
    read_only(rows)[0].a = 1.0


def in_place(rows):
    read_only(rows)[0].a += 1.0


def by_key(rows):
    read_only(rows)[0]["a"] = 1.0


def by_record(rows):
    fixed = read_only(rows)
    fixed[0] = fixed[1]


def nested(rows):
    read_only(rows)[0].n[1] = 1.0


def by_name(rows):
    values = read_only(rows)[0].n
    values[1] = 1.0


def in_helper(rows):
    set_field(read_only(rows)[0])


def nested_in_helper(rows):
    set_nested(read_only(rows)[0])


@pytest.mark.parametrize(
    "write",
    [by_field, in_place, by_key, by_record, nested, by_name, in_helper, nested_in_helper],
    ids=lambda write: write.__name__,
)
def test_no_way_of_writing_to_a_record_compiles(write):
    with pytest.raises(Exception, match=r"tables, parameters and constants are read-only|Cannot modify readonly array"):
        compiled(write)(RECORDS)


def by_element(table):
    read_only(table)[0, 1] += 1.0


def by_row(table):
    row = read_only(table)[0]
    row[1] = 1.0


def whole_row(table):
    read_only(table)[0] += 1.0


def by_flat(table):
    read_only(table).flat[0] = 1.0


def by_view(table):
    read_only(table).reshape(-1)[0] = 1.0


def by_iterator(table):
    for element in np.nditer(read_only(table)):
        element[()] = 1.0


def by_filling(table):
    read_only(table).fill(1.0)


def by_sorting(table):
    read_only(table)[0].sort()


def by_attribute(table):
    tables = Tables(read_only(table))
    tables.prices = table


Tables = namedtuple("Tables", "prices")
WAYS = [by_element, by_row, whole_row, by_flat, by_view, by_iterator, by_filling, by_sorting, by_attribute]


@pytest.mark.few(3)
@pytest.mark.parametrize("write", WAYS, ids=lambda write: write.__name__)
def test_no_way_of_writing_to_a_table_compiles(write):
    with pytest.raises(NumbaError):
        compiled(write)(np.zeros((3, 2)))


def test_a_read_only_record_can_be_read():
    @compiled
    def read(rows):
        return read_all(read_only(rows)[1])

    rows = RECORDS.copy()
    rows["a"], rows["n"] = 0.5, 2.0
    assert read(rows) == 2.5


def saved_and(numbers, backend):
    """A state saved with BARS, and an engine with other numbers."""
    before = rookery.make_vec(lambda: trader(), 2, backend=backend)
    before.reset(seed=1)
    after = rookery.make_vec(lambda: trader(numbers), 2, backend=backend)
    after.reset(seed=1)
    return before.state_dict(), after


@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("backend", ["kernel", "serial"])
def test_a_state_goes_on_only_with_the_tables_it_was_saved_with(backend):
    """Indices in it may point beyond a shorter table; and other prices are another past."""
    state, same = saved_and(BARS.copy(), backend)
    same.load_state_dict(state)
    other = BARS.copy()
    other[3, 2, 1] += 1
    for numbers in (BARS[:100], other):
        state, envs = saved_and(numbers, backend)
        with pytest.raises(StateError, match="saved with other"):
            envs.load_state_dict(state)


@pytest.mark.usefixtures("plain_python")
def test_a_state_that_does_not_say_its_tables_is_refused():
    state, envs = saved_and(BARS, "kernel")
    del state["tables"]
    with pytest.raises(StateError, match="its table 'bars' did not exist then, and was 200x5x7 float32 with the hash"):
        envs.load_state_dict(state)


@pytest.mark.usefixtures("plain_python")
def test_a_state_of_an_earlier_version_of_the_world_may_lack_a_table():
    state, envs = saved_and(BARS, "kernel")
    state["tables"] |= {"gone": state["tables"]["bars"]}
    with pytest.raises(StateError, match="its table 'gone'"):
        envs.load_state_dict(state)
    facts = envs.state_dict()["tables"]
    check_same("Trader", facts, {**facts, "more": facts["bars"]})


class Levels(KernelWorld):
    """A world whose tables are named in full where it is declared."""

    observation_space = TraderF4.observation_space
    action_space = TraderF4.action_space
    tables = {"levels": np.arange(6.0), "bars": Table((None,), "i8")}
    reset, step, observe = map(staticmethod, (TraderF4.reset, TraderF4.step, TraderF4.observe))


def test_facts_of_tables_are_plain_values():
    facts = Levels(bars=[1, 2, 3]).table_facts
    assert facts["bars"]["shape"] == [3] and facts["bars"]["dtype"] == "int64"
    assert len(facts["levels"]["sha256"]) == 64
