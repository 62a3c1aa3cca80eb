"""The system figures of a run: which GPU it uses, and how much memory its learner will fill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rookery.config import RunConfig
from rookery.learners.learner import Learner
from rookery.monitor.system_figures import GpuFigures, SystemFigures


@contextmanager
def open_system_figures(config: RunConfig, learner: Learner) -> Iterator[SystemFigures | None]:
    """CPU, memory and GPU of the run, if the config wants them."""
    if not config.monitor.system:
        yield None
        return
    gpu = GpuFigures(torch.cuda, torch.device(config.device).index, torch.version.hip is not None)
    on_gpu = config.device.startswith("cuda")
    notes = [problem] if on_gpu and (problem := gpu.problem()) else []
    yield SystemFigures(gpu if on_gpu else None, learner.bytes_to_fill, notes)
