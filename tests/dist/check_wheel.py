"""Installs a wheel where there is no compiler, and runs the README there: `python tests/dist/check_wheel.py WHEEL`.

The commands run one after another in an empty folder, as a reader would type them, with fewer steps: all but those that
`NOT_RUN` names.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = "train,gameboy,market,serve,web,sb3"
UP_SECONDS = 8.0  # a server is well if it still runs after this time
LIMIT_SECONDS = 600.0

# What a command becomes, by how it begins.
SHORTER = {
    "rookery train CartPole-v1 --seeds 5": "rookery train CartPole-v1 --seeds 2 --steps 4000",
    "rookery train configs/curriculum_base.json": "rookery train configs/curriculum_base.json --steps 2000",
    "rookery train": "{} --steps 4000",
    "rookery resume": "rookery resume latest --steps 6000",
    "rookery search": "rookery search CartPole-v1 --n-trials 2 --steps 4000",
    "rookery bench": "{} --seconds 0.2",
    "rookery tune": "{} --seconds 0.2",
    "rookery eval latest": "rookery eval latest --episodes 4",
    "rookery eval hockey": "rookery eval hockey --opponent strong --games 20 --seed 7",
    "rookery eval my_agent.py": "{} --games 4 --trust",
    "rookery play": "rookery play hockey --player weak --games 1 --fps 1000",
    "rookery gameboy explore": "{} --script list",
    "rookery dashboard": "rookery dashboard --port 0",
    "rookery serve": "rookery serve agents --port 0",
}
SERVERS = ("rookery dashboard", "rookery serve")
NOT_RUN = {
    "pip install": "the wheel is installed instead",
    "make": "targets of a clone; tests/docs holds that they exist",
}
FILES = {
    "my_env.py": "from gymnasium.envs.classic_control import CartPoleEnv as MyEnv  # noqa: F401\n",
    "my_agent.py": "import numpy as np\n\nclass Agent:\n    def act(self, obs):\n        return np.zeros(4)\n",
}
PREPARE = (  # what a reader of the trading commands has: bars of their own
    "rookery data synth --kind forex --symbols EURUSD --bars 4000 --out bars/EURUSD.parquet",
    "rookery data synth --kind forex --symbols EURUSD --seed 2 --out data/forex/EURUSD.parquet",
    "rookery data synth --kind forex --symbols GBPUSD --seed 3 --out data/forex/GBPUSD.parquet",
)


def commands(readme: str) -> list[str]:
    """The lines of the README's shell blocks, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for raw in block.splitlines() if (line := re.sub(r"\s+#.*", "", raw).strip())]


def as_run(command: str) -> str | None:
    """The command with fewer steps; None if it is not run."""
    if any(command.startswith(name) for name in NOT_RUN):
        return None
    known = next((short for name, short in SHORTER.items() if command.startswith(name)), "{}")
    return known.format(command)


def clean_venv(folder: Path, wheel: Path) -> dict[str, str]:
    """Installs the wheel; returns an environment in which there is no compiler, and no program but Python's."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"rookery[{EXTRAS}] @ {wheel.as_uri()}", "pytest", "pytest-timeout"], check=True)
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")}
    return {**kept, "PATH": str(folder / "bin"), "CC": "false", "HOME": str(home), "SDL_VIDEODRIVER": "dummy"}


def reader_folder(folder: Path, site: Path) -> None:
    """What the README's commands take for granted."""
    folder.mkdir()
    shutil.copytree(ROOT / "configs", folder / "configs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    game_boy = site / "rookery" / "worlds" / "gameboy"
    shutil.copy(game_boy / "roms" / "meadow.gb", folder / "my_game.gb")
    shutil.copy(game_boy / "profiles" / "meadow.toml", folder / "my_game.toml")


def passes(command: str, folder: Path, variables: dict[str, str]) -> bool:
    """Runs one command and prints how it went; its output only if it failed."""
    began, words = time.monotonic(), shlex.split(command)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [shutil.which(words[0], path=variables["PATH"]) or words[0], *words[1:]],
            cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        good = is_up(process) if command.startswith(SERVERS) else ends_well(process)
        output.seek(0)
        print(f"{'ok  ' if good else 'FAIL'} {time.monotonic() - began:6.1f} s  {command}", flush=True)
        if not good:
            print(output.read())
    return good


def is_up(process: subprocess.Popen) -> bool:
    """Whether a server runs until it is interrupted."""
    try:
        process.wait(timeout=UP_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
        return True
    return False


def ends_well(process: subprocess.Popen) -> bool:
    """Whether a command ends in time, and without an error."""
    try:
        return process.wait(timeout=LIMIT_SECONDS) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        return False


def python_blocks_pass(folder: Path, variables: dict[str, str]) -> bool:
    """tests/docs/test_readme.py, on the installed package."""
    shutil.copy(ROOT / "README.md", folder)
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.png", "*.gif"))
    shutil.copytree(ROOT / "tests" / "docs", folder / "tests" / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = tests\ntimeout = 300\n")
    return passes("python -m pytest -q tests/docs/test_readme.py", folder, variables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel.resolve()
    with tempfile.TemporaryDirectory(prefix="rookery-wheel-") as name:
        folder = Path(name)
        variables = clean_venv(folder / "venv", wheel)
        reader, tests = folder / "reader", folder / "tests"
        reader_folder(reader, next((folder / "venv" / "lib").glob("python*/site-packages")))
        tests.mkdir()
        asked = [short for line in commands((ROOT / "README.md").read_text()) if (short := as_run(line))]
        results = [passes(command, reader, variables) for command in (*PREPARE, *asked)]
        results.append(python_blocks_pass(tests, variables))
    print(f"{wheel.name}: {sum(results)} of {len(results)} commands of the README passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
