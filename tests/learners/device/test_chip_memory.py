"""Kernels of PPO and PQN fit on the chips of GPUs that are not here: Triton compiles them, and says what they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.timeout(600)  # it compiles
H200, A100, RTX_4090 = (90, 232_448), (80, 166_912), (89, 101_376)  # capability, and bytes on the chip
CASES = [
    (RTX_4090, 17, [64, 64], "auto", "ppo"),  # a half-cheetah
    (RTX_4090, 105, [64, 64], "auto", "ppo"),
    (RTX_4090, 17, [64, 64], "tf32", "ppo"),
    (RTX_4090, 105, [64, 64], "float32", "ppo"),
    (A100, 105, [128, 128], "auto", "ppo"),
    (A100, 17, [256, 256], "auto", "ppo"),
    (H200, 105, [128, 128], "auto", "ppo"),
    (H200, 105, [256, 256], "auto", "ppo"),
    (H200, 4, [64, 64], "auto", "pqn"),
    (A100, 105, [128, 128], "auto", "pqn"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "inputs", "hidden", "precision", "learner"),
    [
        (
            H200,
            105,
            [64, 64],
            "auto",
            "ppo",
        ),  # an ant: three tiles of 128 rows would need 290,816 bytes
        *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES),
    ],
)
def test_kernels_fit_on_the_chip(
    gpu: tuple[int, int], inputs: int, hidden: list[int], precision: str, learner: str
) -> None:
    script = Path(__file__).with_name("compile_only.py")
    words = [str(word) for word in (*gpu, inputs, json.dumps(hidden), precision, learner)]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, script, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["used"] and {"act", "evaluate"} < set(found["launched"])
    assert max(found["launched"].values()) <= gpu[1]
