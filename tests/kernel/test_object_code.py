"""Object code of compiled worlds."""

from __future__ import annotations

import ctypes

import pytest

numba = pytest.importorskip("numba")


def test_the_code_generator_runs_once():
    """For what is kept on disk: Numba's own engine, which makes machine code in this process, does not get it."""
    from numba.core.registry import cpu_target

    from rookery.kernel import native

    name, code = native._object_code(lambda number: number + 3, numba.int64(numba.int64))
    assert not cpu_target.target_context.codegen()._engine.is_symbol_defined(name)
    call, _engine = native._load(name, code, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64))
    assert call(4) == 7
