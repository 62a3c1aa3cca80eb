"""A world with a mistake is rejected in words about the world, with the line that is meant."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

import rookery
from kernel import broken
from kernel.samples import Poisoned, Steerer, Walker
from rookery.errors import OptionError, RookeryError, WorldError
from rookery.kernel.kernel_env import KernelEnv, find_world


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("world", "words"),
    [
        (broken.UndeclaredField, "no field 'speed'; the fields are .* x"),
        (broken.Helper, "no attribute 'nothing'"),
        (broken.UnknownName, "'nobody_knows' is not defined"),
        (broken.Allocates, "cannot be compiled: np.zeros makes a new array; use a field of `scratch`"),
        (broken.ThroughModule, "write `from kernel.samples import half`"),
        (broken.Raises, "cannot raise an exception"),
        (broken.WritesTooFar, "out of bounds"),
        (broken.Recursive, "factorial calls itself"),
        (broken.ReadsAClass, "ReadsAClass is a class; a constant must be a number"),
        (broken.NumpyRandom, "use rookery.kernel.random"),
        (broken.PythonRandom, "use rookery.kernel.random"),
        (broken.SetsAGlobal, "cannot change a global name; keep what changes in a field of `state`"),
        (broken.Clips, r"compiled code has no np.clip; write min\(max\(x, low\), high\)"),
        (broken.SumsExactly, "compiled code has no math.fsum; add the numbers in a loop"),
        (broken.SumsByName, "compiled code has no exact_sum; add the numbers in a loop"),
        (broken.MultipliesAll, "compiled code has no math.prod; multiply"),
        (broken.ListConstant, r"PAIR is a list; a constant must be .* NumPy array \(np.array\(...\)\)"),
        (broken.DictConstant, "TABLE is a dict; a constant must be a number"),
        (broken.ListArgument, "compiled code cannot make a list; use a tuple"),
        (broken.ListDefault, "first_of_default has a list as a default; use a tuple"),
        (broken.MemoryView, r"compiled code has no memoryview; index the array itself"),
        (broken.WholeArray, "arrays are computed with one number at a time"),
        (broken.ArrayMethod, "arrays are computed with one number at a time"),
        (broken.OfTheStandardLibrary, "compiled code has no math.isqrt; write it as a function of your own"),
        (broken.WritesASlice, "written one number at a time"),
        (broken.TooLarge, "300 out of bounds for uint8"),
        (broken.DrawsFromANumber, "no attribute 'seed'"),
        (broken.EasyMisspelt, "no field 'y'"),
        (broken.ReturnsTheObservation, "observe returns a value, which nothing reads: write it into `out`"),
        (broken.RebindsTheObservation, "observe gives the name `out` to another value, .*write each number into it"),
        (broken.UnpacksIntoOut, "observe gives the name `out` to another value"),
        (broken.ResetReturns, "reset returns a value, which nothing reads: write it into `state`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mistakes_are_shown_at_their_line(world, words):
    """The error names the mistake, the file and the line, in a helper function too."""
    with pytest.raises(WorldError, match=words) as caught:
        KernelEnv(world)
    lines = inspect.getsource(broken).splitlines()
    (number,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"wrong: {world.__name__}")]
    assert f'File "{broken.__file__}", line {number}\n' in str(caught.value)


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (broken.ReturnsOne, "step should return the reward and whether the episode terminated"),
        (broken.AsksForMore, "AsksForMore.step has an unknown argument 'wind'; it may have state, action,"),
        (broken.NotStatic, "NotStatic.step should be a static method"),
        (broken.TakenName, "may not have a field 'seed'"),
        (broken.OddType, "OddType.state should map names to NumPy dtypes"),
        (broken.NoSpace, "NoSpace.observation_space should be one of Box"),
        (broken.NoKinds, "NoKinds.hard_kinds should be an integer >= 1, got 0"),
        (broken.FloatAgents, "FloatAgents.num_agents should be an integer >= 1, got 1.5"),
        (broken.NamedParameter, "'speed' should be a number, an array of numbers, .*got 'fast'"),
        (broken.NoLimit, "NoLimit.time_limit should be a number of steps, or 0 for no limit"),
        (broken.KeywordField, "KeywordField.state: 'for' cannot be the name"),
        (broken.HiddenTable, "HiddenTable.tables: '_prices' cannot be the name"),
        (broken.WordTable, "WordTable.tables: 'names' should hold numbers"),
        (broken.RaggedTable, "RaggedTable.tables: 'levels' cannot be an array"),
        (broken.ListedState, "ListedState.state should be a dictionary"),
        (broken.BoolArray, "'walls' is an array of bools, which cannot be compiled; use 'u1'"),
        (broken.WordField, "WordField.info: 'name' has the dtype"),
        (broken.HalfFloats, "observation_space has the dtype float16"),
        (broken.EngineInfo, "EngineInfo.info may not have a field 'final_obs'"),
        (broken.MaskedBox, "action_mask needs a Discrete or MultiDiscrete action space"),
        (broken.AliasOfNothing, "'quick' is for a parameter that does not exist"),
        (broken.RewardsOfOne, "has the argument 'rewards', but num_agents is 1: return the reward"),
        (broken.SwappedReturns, "1.0 is not a bool for whether the episode terminated"),
        (broken.EasyWithoutAKind, "easy returns 2 values, and step 2: easy should return the kind of the step"),
        (broken.EasyChanges, "easy returned 1, for a hard step, after it had changed the state"),
        (broken.NoSuper, r"NoSuper.__init__ should call super\(\).__init__"),
        ("nothing", "is not a KernelWorld|No module"),
        (int, "is not a KernelWorld"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(world, words):
    """Before anything is compiled."""
    with pytest.raises((WorldError, ImportError), match=words):
        KernelEnv(world)


def test_out_may_be_written_and_cut():
    """A part of `out` by the same name is still written to, and `+=` of a number changes it in place."""

    class Cuts(Steerer):
        observation_space = spaces.Box(-9.0, 9.0, (2,))

        @staticmethod
        def observe(state, out):
            out[0] = 1.0
            out = out[1:]
            out[0] = 2.0
            out[0] += 1.0

    for plain in (True, False):
        assert KernelEnv(Cuts, plain=plain).reset(seed=0)[0].tolist() == [1.0, 3.0]


def test_several_agents_return_one_value():
    """A pair, as worlds of one agent return it, would count as an end of every step."""
    with pytest.raises(WorldError, match=r"1\.0 is not a bool for whether the episode terminated \(step should"):
        rookery.make_vec(broken.BothReturned, 2, backend="kernel")


@pytest.mark.slow
def test_an_exception_in_unchecked_code_is_raised():
    """It would leave the batch half stepped, at this step and all that follow."""
    envs = rookery.make_vec(broken.BeyondATuple, 3, backend="kernel", on_failure="restart", bounds=False)
    envs.reset(seed=1)
    for _ in range(3):
        envs.step(envs.action_space.sample())
    with pytest.raises(WorldError, match=r"BeyondATuple fails: .*whose line is not known"):
        envs.step(envs.action_space.sample())


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**63, 1.5], ids=str)
def test_whole_parameters_stay_whole(value):
    """Neither NaN, infinity nor what is too large passes for a whole number."""
    with pytest.raises(OptionError, match="'harm' should be an integer"):
        Poisoned(harm=value)


def test_unknown_parameters_are_refused_with_the_nearest_known():
    """A misspelt parameter never passes silently, nor does one that is not a number."""
    with pytest.raises(OptionError, match="no parameter 'strid'; did you mean 'stride'"):
        Walker(strid=2)
    with pytest.raises(OptionError, match="'stride' should be a number"):
        Walker(stride="long")
    with pytest.raises(RookeryError, match="give its class"):
        find_world(Walker(), {"stride": 2})


SECOND_START = """
import sys, time
sys.path.insert(0, {folder!r})
import rookery
from rookery.kernel import native
compiled = []
original = native._compile
native._compile = lambda *args: compiled.append(1) or original(*args)
from outer import Hopper
envs = rookery.make_vec(Hopper, 4)
envs.reset(seed=1)
print(len(compiled), envs.step([0, 0, 0, 0])[1].tolist())
"""

OUTER = """
import numpy as np
from gymnasium import spaces
from rookery import KernelWorld
from inner import bonus

class Hopper(KernelWorld):
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    state = {"x": "f8"}
    @staticmethod
    def reset(state):
        state.x = 0.5
    @staticmethod
    def step(state, action):
        return bonus(state.x), False
    @staticmethod
    def observe(state, out):
        out[0] = state.x
"""


@pytest.mark.slow
def test_compiled_code_is_kept_until_any_file_changes(tmp_path, monkeypatch):
    """A second process compiles nothing; after an edit in a file that the world only calls into, it does."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "outer.py").write_text(OUTER)

    def start(bonus: str) -> str:
        (tmp_path / "inner.py").write_text(bonus)
        code = SECOND_START.format(folder=str(tmp_path))
        return subprocess.check_output([sys.executable, "-B", "-c", code], text=True).strip()

    whole = "FACTOR = 2.0\ndef bonus(x, gain=1.0):\n    return FACTOR * gain * 1.0 * x\n"
    assert start(whole) == "1 [1.0, 1.0, 1.0, 1.0]"
    assert start(whole) == "0 [1.0, 1.0, 1.0, 1.0]"
    assert start(whole.replace("* 1.0", "* 4.0")) == "1 [4.0, 4.0, 4.0, 4.0]"


def test_everything_that_code_reads_is_part_of_the_key():
    """Code, constants and defaults of what is called, enums, tuples of arrays, and what is taken out of modules count;
    installed libraries count by name."""
    import enum
    import types

    from numba.extending import intrinsic

    from rookery.kernel.code_cache import fingerprint

    def key(value):
        scope = {"thing": value}
        exec("def f(x):\n    return thing.inner.Kind.SIZE.A", scope)
        return fingerprint(scope["f"], "")

    def module(**contents):
        made = types.ModuleType("geometry")
        made.__file__ = "/somewhere/geometry.py"
        vars(made).update(contents)
        return made

    def helper(code="FACTOR * gain * x", factor=2.0, gain=1.0):
        scope = {"FACTOR": factor}
        exec(f"def bonus(x, gain={gain}):\n    return {code}", scope)
        return scope["bonus"]

    assert key(helper()) == key(helper())
    others = (helper(code="FACTOR * gain - x"), helper(factor=6.0), helper(gain=2.0))
    assert len({key(helper()), *map(key, others)}) == 4
    for kind in (enum.IntEnum, enum.Enum):
        one, two = (kind("Kind", {"A": value}) for value in (1, 2))
        assert key(one) != key(two)
        assert key(module(Kind=one)) != key(module(Kind=two))
    assert key(module(SIZE=1.0)) != key(module(SIZE=2.0))
    assert key(module(SIZE=1.0)) == key(module(SIZE=1.0, OTHER=3.0))
    assert key(module(inner=module(SIZE=1.0))) != key(module(inner=module(SIZE=2.0)))
    assert key((np.zeros(5000), 1)) != key((np.arange(5000) == 2500, 1))
    assert key(np) == key(np)
    add, merge = (intrinsic(definition) for definition in (lambda context: "add", lambda context: "or"))
    assert key(add) != key(merge)


@pytest.mark.slow
def test_the_order_of_tables_is_part_of_the_key():
    """Two worlds whose tables differ in their order alone do not share code that tells them by their place."""

    class Quotes(Walker):
        def __init__(self, **prices):
            self.tables = {"slopes": np.zeros(3), **{name: np.array([price]) for name, price in prices.items()}}
            super().__init__()

        @staticmethod
        def observe(state, out, tables):
            out[0], out[1], out[2] = tables.bid[0], tables.ask[0], 0.0

    for world in (Quotes(bid=1.0, ask=2.0), Quotes(ask=2.0, bid=1.0)):
        assert KernelEnv(world).reset(seed=1)[0].tolist() == [1.0, 2.0, 0.0]


def test_a_spoilt_cache_is_compiled_again(tmp_path, monkeypatch):
    """Half a file, or a flipped byte, is noticed by its hash; no pickle is read."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    from rookery.kernel import code_cache

    code_cache.write("World", "0" * 64, "entry", b"machine code")
    (file,) = tmp_path.iterdir()
    assert code_cache.read("World", "0" * 64) == ("entry", b"machine code")
    file.write_bytes(file.read_bytes().replace(b"machine", b"Machine"))
    assert code_cache.read("World", "0" * 64) is None
    file.write_bytes(b"")
    assert code_cache.read("World", "0" * 64) is None
    source = Path(code_cache.__file__).read_text()
    assert not re.search(r"\bpickle\b", source)
