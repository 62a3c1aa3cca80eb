"""A world and a learner of another installed package are trained by name from the command line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.training.storage.run_dir import RunDir

PACKAGE = Path(__file__).parent / "package"
TRAIN = shlex.split("train plugin-world --steps 500 --backend serial --eval-episodes 1 --set monitor.plot=false --json")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder for PYTHONPATH in which pip has installed the package."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(PACKAGE, folder / "source")  # as a build leaves files beside the sources
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, folder / "installed", source], check=True)
    return folder / "installed"


def rookery(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess:
    places = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "rookery", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_world_is_trained_by_its_name(installed, tmp_path):
    """With its recipe and its own flag."""
    done = rookery(installed, tmp_path, *TRAIN, "--width", "5")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["total_steps"] >= 500 and result["episodes"] > 0
    config = RunDir(tmp_path / result["path"]).read_config()
    assert (config["world"], config["world_options"], config["num_envs"]) == ("plugin-world", {"width": 5}, 2)


@pytest.mark.slow
def test_a_learner_is_trained_by_its_name(installed, tmp_path):
    done = rookery(installed, tmp_path, *TRAIN, "--learner", "plugin-learner", "--num-envs", "2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total_steps"] >= 500
