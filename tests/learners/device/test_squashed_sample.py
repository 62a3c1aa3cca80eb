"""SAC's samples by Triton kernels equal the plain ones, gradients too. The kernels run by Triton's interpreter, in a
process of its own: the interpreter must be chosen before Triton is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

CASES = ((5, 1), (37, 3))  # rows and sizes of actions


@pytest.mark.slow
def test_samples_and_gradients_equal_the_plain_ones() -> None:
    pytest.importorskip("triton")
    command = [sys.executable, "-W", "ignore", "-m", "tests.learners.device.test_squashed_sample"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]


def compare_projections() -> None:
    """XQC's distributions, for numbers of atoms that are powers of two and others."""
    from rookery.learners.kernels.cpu.host_xqc import HostXQC
    from rookery.learners.kernels.gpu.atom_kernels import projected

    for rows, atoms in ((3, 8), (5, 21)):
        given = torch.rand(rows, atoms).softmax(-1), (torch.rand(rows, atoms) * 1.4 * atoms).clamp(0, atoms - 1)
        torch.testing.assert_close(projected(*given), HostXQC.projected(*given))


def compare() -> None:
    """Standard deviations beyond the limits have no gradient."""
    import tests.learners.triton_interpreter  # noqa: F401, I001
    from rookery.learners.kernels.gpu.squash_kernels import SquashedSample
    from rookery.learners.algorithms.sac import LOG_STD, squashed_log_prob

    torch.manual_seed(0)
    for rows, size in CASES:
        outputs, noise = torch.randn(rows, 2 * size) * 4, torch.randn(rows, size)
        outputs[0, size], outputs[1, size] = -20.0, 5.0
        outputs.requires_grad_()
        mean, log_std = outputs.chunk(2, -1)
        log_std = log_std.clamp(*LOG_STD)
        raw = mean + log_std.exp() * noise
        wanted = raw.tanh(), squashed_log_prob(raw, log_std, noise)
        found = SquashedSample.apply(outputs, noise, *LOG_STD)
        weights = torch.randn_like(wanted[0]), torch.randn_like(wanted[1])
        grads = []
        for actions, log_probs in (wanted, found):
            loss = (actions * weights[0]).sum() + (log_probs * weights[1]).sum()
            grads += torch.autograd.grad(loss, outputs)
        for one, other in zip((*wanted, grads[0]), (*found, grads[1]), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)
        assert grads[1][0, size] == grads[1][1, size] == 0.0


if __name__ == "__main__":
    compare()
    compare_projections()
