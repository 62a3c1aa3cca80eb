"""The checks of checks.py for a CPU, and the compiler pass that inserts them. Needs Numba."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, ir, ir_utils
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.extending import intrinsic
from numba.np import arrayobj

from rookery.kernel.call_record import emit_failure
from rookery.kernel.check_code import Target, build_checks
from rookery.kernel.code_checks import Toolkit, insert_checks


def frozen(builder: Any, value: Any) -> Any:
    """The value, as one number: a float that is too large for an integer becomes any number, and the compiler might
    otherwise assume one number for the check and another for what follows."""
    instruction = cgutils.ir.instructions.Instruction(builder.block, value.type, "freeze", [value])
    builder._insert(instruction)
    return instruction


TOOLS = Toolkit(ir, ir_utils, *build_checks(Target(intrinsic, arrayobj, emit_failure, frozen)))


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckCode(FunctionPass):
    """A compiler pass before type inference: inserts the checks into functions that are checked."""

    _name = "rookery_check_code"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if state.func_id.func.__code__ not in state.numbers:
            return False
        insert_checks(TOOLS, state)
        return True
