"""A single env takes the names that a batch takes."""

from __future__ import annotations

import pytest

from rookery.errors import WorldError
from rookery.kernel.kernel_env import KernelEnv, find_world

FILE = """
import math
from pathlib import Path
from kernel.samples import Walker

class Strider(Walker):
    parameters = {**Walker.parameters, "stride": 2.5}

def made(stride=4.0):
    return Strider(stride=stride)

def number():
    return 3
"""


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "strides.py"
    place.write_text(FILE)
    return place


def test_a_file_names_a_class_or_a_function_written_in_it(file):
    env = KernelEnv(f"{file}:Strider", plain=True, limit=9.0)
    assert env.parameters["stride"] == 2.5 and env.parameters["limit"] == 9.0
    assert KernelEnv(f"{file}:made", plain=True, stride=5.0).parameters["stride"] == 5.0
    assert KernelEnv(f"{file}:Walker", plain=True).parameters["stride"] == 1.0
    env.reset(seed=1)


@pytest.mark.parametrize("name", ["math", "Path", "nothing", "number", "os"])
def test_what_is_not_a_world_of_that_file_is_refused(file, name):
    with pytest.raises(WorldError, match="is not a "):
        KernelEnv(f"{file}:{name}")


def test_a_missing_file_is_named():
    with pytest.raises(WorldError, match=r"there is no file 'no/such\.py'"):
        find_world("no/such.py:World")


def test_an_id_names_its_world_with_its_time_limit():
    env = KernelEnv("rookery/CartPole-v1", plain=True, gravity=1.6)
    assert env.parameters["gravity"] == 1.6 and env.parameters["time_limit"] == 500
    with pytest.raises(WorldError, match="CartPole-v1 is not a kernel world"):
        KernelEnv("CartPole-v1")
    with pytest.raises(WorldError, match="cannot name another world"):
        find_world("rookery/CartPole-v1", {"world": "x:Y"})
