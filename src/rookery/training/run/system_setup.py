"""The system figures of a run: which GPU it uses, and how much memory its learner will fill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import torch

from rookery.config import RunConfig
from rookery.learners.learner import Learner
from rookery.monitor.gpu_figures import GpuReader, open_gpu
from rookery.monitor.system_figures import SystemFigures


@contextmanager
def open_system_figures(config: RunConfig, learner: Learner) -> Iterator[SystemFigures | None]:
    """CPU, memory and GPU of the run, if the config wants them."""
    if not config.monitor.system:
        yield None
        return
    gpu = _gpu(config.device) if config.device.startswith("cuda") else None
    notes = [gpu] if isinstance(gpu, str) and gpu else []
    reader = None if isinstance(gpu, str) else gpu
    with closing(SystemFigures(reader, learner.bytes_to_fill, notes)) as figures:
        yield figures


def _gpu(device: str) -> GpuReader | str:
    index = torch.device(device).index
    index = torch.cuda.current_device() if index is None else index
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", "")
    return open_gpu(index, str(uuid), rocm=torch.version.hip is not None)
