"""How products are computed on a GPU: in float32, tf32 or bf16, and by algorithms that give the same numbers again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rookery.console import say

# Without it cuBLAS may use several streams with one memory, and sum in another order each time. It is read once.
CUBLAS_SETTING = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"


def _has_bf16() -> bool:
    """Whether the GPU computes in bf16 itself; older ones only imitate it."""
    return not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)


def _use_deterministic_algorithms(mode: bool, warn_only: bool) -> None:
    """As torch's function of this name, which also tells torch's compiler: that alone takes seconds, as it imports the
    compiler, which is not used here."""
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)


class Products:
    """The settings of torch while a learner computes on a GPU: `with products: ...`. Elsewhere it changes nothing.

    `precision` is the option of the same name. "auto" is bf16 for images, whose convolutions take most of the time, and
    tf32 for all else.
    """

    def __init__(self, precision: str, deterministic: bool, device: torch.device, images: bool) -> None:
        self.deterministic, self._on_gpu = deterministic, device.type == "cuda"
        if precision == "auto":
            precision = "bf16" if images and _has_bf16() else "tf32"
        self.precision = precision
        self._restore: list[Any] = []
        self._said: set[str] = set()
        if self._on_gpu and deterministic:
            os.environ.setdefault(*CUBLAS_SETTING)

    @property
    def encoder_dtype(self) -> torch.dtype:
        """The type in which encoders compute."""
        return torch.bfloat16 if self._on_gpu and self.precision == "bf16" else torch.float32

    def __enter__(self) -> None:
        if self._on_gpu:
            context = self._settings()
            context.__enter__()
            self._restore.append(context)

    def __exit__(self, *error: object) -> None:
        if self._on_gpu:
            self._restore.pop().__exit__(*error)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
        was = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        memory: Any = torch.utils.deterministic
        filled = memory.fill_uninitialized_memory
        matmul.allow_tf32 = cudnn.allow_tf32 = self.precision != "float32"
        cudnn.benchmark = not self.deterministic
        if self.deterministic:
            _use_deterministic_algorithms(True, warn_only=True)
            memory.fill_uninitialized_memory = False
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
            _use_deterministic_algorithms(was[0], warn_only=was[1])
            memory.fill_uninitialized_memory = filled

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The same settings. torch warns about each operation that it has no deterministic algorithm for: it is said
        once, in our words."""
        with warnings.catch_warnings(record=True) as caught, self:
            yield
        for warning in caught:
            text = str(warning.message)
            if "determinis" not in text:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            elif (operation := text.partition(" ")[0]) not in self._said:
                self._said.add(operation)
                say(f"{operation} has no deterministic algorithm on this GPU: two runs with one seed can differ")
