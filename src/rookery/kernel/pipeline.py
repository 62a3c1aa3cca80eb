"""Numba's pipeline for the functions of a world, with three passes more: see numbers.py, readonly.py, interrupt.py."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import IRProcessing

from rookery.kernel.interrupt import CountTurns
from rookery.kernel.readonly import RefuseWrites
from rookery.kernel.widening import WidenLoads


class WorldCompiler(CompilerBase):
    """Compiles what an author wrote, not the loop around it."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(WidenLoads, IRProcessing)
        passes.add_pass_after(CountTurns, IRProcessing)
        passes.add_pass_after(RefuseWrites, NopythonTypeInference)
        passes.finalize()
        return [passes]
