"""An env that tells what its process is like. It imports little, as each worker does so again."""

from __future__ import annotations

import os
import random
import resource
import sys
import threading
from typing import Any

import gymnasium as gym
import numpy as np


class Teller(gym.Env):
    """Tells what its process is like."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def tell(self) -> dict[str, Any]:
        return {
            "folder": os.getcwd(), "variable": os.environ.get("TOLD"), "path": list(sys.path),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE), "cores": sorted(os.sched_getaffinity(0)),
            "umask": _umask(), "random": (random.random(), float(np.random.random())),
            "modules": [name for name in ("torch", "xml.dom.minidom") if name in sys.modules],
            "threads": threading.active_count(), "descriptors": len(os.listdir("/proc/self/fd")),
        }  # fmt: skip

    def speak(self) -> None:
        os.write(1, b"here I am\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
