"""How products are computed on a GPU. The settings are torch's own, which a CPU has too."""

from __future__ import annotations

import os
import warnings

import pytest
import torch

from rookery.learners.kernels.gpu.precision import Products

GPU, CPU = torch.device("cuda"), torch.device("cpu")


def settings() -> tuple[bool, ...]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


@pytest.mark.parametrize(
    ("precision", "deterministic", "expected"),
    [
        ("float32", True, (False, False, False, True, False)),
        ("tf32", True, (True, True, False, True, False)),
        ("bf16", False, (True, True, True, False, True)),
    ],
)
def test_settings_hold_inside_and_are_restored_after(precision, deterministic, expected):
    before = settings()
    products = Products(precision, deterministic, GPU, images=False)
    with pytest.raises(ValueError), products:
        assert settings() == expected
        with products:
            assert settings() == expected
        assert settings() == expected
        raise ValueError
    assert settings() == before
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) is deterministic


def test_a_cpu_is_left_alone():
    before = settings()
    with Products("tf32", True, CPU, images=True) as entered:
        assert settings() == before and entered is None
    assert Products("bf16", True, CPU, images=True).encoder_dtype == torch.float32


def test_auto_is_bf16_for_images_and_tf32_for_all_else():
    assert Products("auto", True, GPU, images=True).encoder_dtype == torch.bfloat16
    assert Products("auto", True, GPU, images=False).precision == "tf32"
    assert Products("float32", True, GPU, images=True).encoder_dtype == torch.float32


def test_what_has_no_deterministic_algorithm_is_said_once(caplog):
    caplog.set_level("INFO")
    products = Products("tf32", True, GPU, images=False)

    def work() -> None:
        with products.watched():
            assert torch.are_deterministic_algorithms_enabled()
            warnings.warn("cumsum_cuda_kernel does not have a deterministic implementation", stacklevel=1)
            warnings.warn("another matter", stacklevel=1)

    for _ in range(2):
        with pytest.warns(UserWarning, match="another matter"):
            work()
    assert caplog.text.count("cumsum_cuda_kernel has no deterministic algorithm on this GPU") == 1
