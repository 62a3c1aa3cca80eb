"""Triton's interpreter for tests: kernels run on a CPU. Import this before any module that imports triton."""

from __future__ import annotations

import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

from triton.runtime import interpreter

_patch = interpreter._patch_lang_tensor


def _patch_with_index(tensor: Any, scope: Any) -> None:
    """Loop bounds are arrays with one number there, which newer versions of NumPy do not take for an integer."""
    _patch(tensor, scope)
    tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])


interpreter._patch_lang_tensor = _patch_with_index
