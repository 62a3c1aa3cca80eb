"""XQC's projection of distributions to the atoms by one Triton kernel: the plain formula stores a number for each row
and pair of atoms."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.triton_support import power_of_two


@triton.jit
def project_row(probabilities, places, found, ATOMS: tl.constexpr, P_ATOMS: tl.constexpr):
    """A probability goes to the two atoms nearest to its place. Grid: rows."""
    start, atom = tl.program_id(0) * ATOMS, tl.arange(0, P_ATOMS)
    inside = atom < ATOMS
    mass = tl.load(probabilities + start + atom, mask=inside, other=0.0)
    place = tl.load(places + start + atom, mask=inside, other=0.0)
    near = tl.maximum(1.0 - tl.abs(place[None, :] - atom[:, None].to(tl.float32)), 0.0)
    tl.store(found + start + atom, tl.sum(near * mass[None, :], 1), mask=inside)


def projected(probabilities: Tensor, places: Tensor) -> Tensor:
    """As `XQC.projected`."""
    probabilities, places = probabilities.contiguous(), places.contiguous()
    found, (rows, atoms) = torch.empty_like(places), places.shape
    project_row[rows,](probabilities, places, found, ATOMS=atoms, P_ATOMS=power_of_two(atoms))
    return found
