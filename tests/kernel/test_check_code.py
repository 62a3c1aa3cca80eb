"""The instructions of the checks: a GPU's compiler reads the text form of LLVM 7, which lacks some newer ones."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numba")

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.np import arrayobj

from rookery.kernel.code_checks import Target, toolkit

WORD = types.int64
NEWER = {"fneg", "freeze", "callbr"}
PAIR = types.UniTuple(types.float64, 2)
TABLE = types.Array(types.float64, 2, "C")
MANY = types.Array(types.int64, 1, "C")
GIVEN = {
    "index": ("check_index", (TABLE, types.UniTuple(types.int64, 2))),
    "unsigned": ("check_index", (TABLE, types.uint64)),
    "small": ("check_index", (TABLE, types.int8)),
    "tuple": ("check_index", (PAIR, types.int64)),
    "array of indices": ("check_index", (TABLE, MANY)),
    "array of booleans": ("check_index", (TABLE, types.Array(types.boolean, 1, "C"))),
    "divisor": ("check_divisor", (types.int64, types.int64)),
    "float to integer": ("check_to_integer", (types.float64,)),
    "single to integer": ("check_to_integer", (types.float32,)),
    "range": ("check_range", (types.int64, types.int64)),
}


def code_of(check, kinds):
    """What a check compiles to for arguments of these types, where a failure leaves the function."""

    def emit_failure(context, builder, place, first, second):
        builder.ret_void()

    target = Target(lambda function: function, arrayobj, emit_failure, lambda builder, value: value)
    context = cpu_target.target_context
    context.refresh()  # else it knows no casts before something was compiled
    signature, generate = getattr(toolkit(None, None, target), check)(None, *kinds, WORD)
    module = ir.Module()
    arguments = [context.get_value_type(kind) for kind in (*kinds, WORD)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), "checked")
    builder = ir.IRBuilder(function.append_basic_block())
    generate(context, builder, signature, function.args)
    builder.ret_void()
    return str(module)


@pytest.mark.parametrize("name", GIVEN)
def test_checks_have_only_instructions_that_a_gpu_compiler_knows(name):
    code = code_of(*GIVEN[name])
    words = set(re.findall(r"(?<![%@\".\w])[a-z]\w*", code))
    assert "icmp" in words or "fcmp" in words
    assert not words & NEWER
    assert not re.search(r"\bi(65|128)\b|@\"?llvm\.(s|u)(max|min|add\.sat|sub\.sat)|\bptr\b|\bpoison\b", code)
