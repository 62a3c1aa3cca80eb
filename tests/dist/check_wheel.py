"""Installs a wheel where there is no compiler, and runs the README and the tour there:
`python tests/dist/check_wheel.py WHEEL`.

The commands run one after another in an empty folder, as a reader would type them, with fewer steps: all but those that
`NOT_RUN` names.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TEXT = README + (ROOT / "docs" / "tour.md").read_text()
EXTRAS = "train,gameboy,market,serve,web,sb3"
UP_SECONDS = 120.0  # until a server says where it is, on a machine that has never imported torch
STOP_SECONDS = 30.0
LIMIT_SECONDS = 600.0
INSTALL_SECONDS = 1800.0

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
    "balance.py": re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[1],
}
PREPARE = (  # what a reader of the trading commands has: bars of their own
    "rookery data synth --kind forex --symbols EURUSD --bars 4000 --out bars/EURUSD.parquet",
    "rookery data synth --kind forex --symbols EURUSD --seed 2 --out data/forex/EURUSD.parquet",
    "rookery data synth --kind forex --symbols GBPUSD --seed 3 --out data/forex/GBPUSD.parquet",
)


def commands() -> list[str]:
    """The lines of the shell blocks of the README and the tour, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
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
    subprocess.run(
        [*pip, f"rookery[{EXTRAS}] @ {wheel.as_uri()}", "pytest", "pytest-timeout"], check=True, timeout=INSTALL_SECONDS
    )
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")}
    return {**kept, "PATH": str(folder / "bin"), "CC": "false", "HOME": str(home), "SDL_VIDEODRIVER": "dummy"}


def reader_folder(folder: Path, site: Path) -> None:
    """What the commands take for granted."""
    folder.mkdir()
    shutil.copytree(ROOT / "configs", folder / "configs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    game_boy = site / "rookery" / "worlds" / "gameboy"
    shutil.copy(game_boy / "roms" / "meadow.gb", folder / "my_game.gb")
    shutil.copy(game_boy / "profiles" / "meadow.toml", folder / "my_game.toml")


def passes(command: str, folder: Path, variables: dict[str, str]) -> bool:
    """Runs one command; prints its name, how long it took, and its output if it failed."""
    print(f"{command} ...", flush=True)
    began, words = time.monotonic(), shlex.split(command)
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [shutil.which(words[0], path=variables["PATH"]) or words[0], *words[1:]], cwd=folder, env=variables,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            problem = server_problem(process, output) if command.startswith(SERVERS) else command_problem(process)
        finally:
            end_group(process)
        print(f"{'FAIL' if problem else 'ok  '} {time.monotonic() - began:6.1f} s  {problem}", flush=True)
        if problem:
            print(text_of(output), flush=True)
    return not problem


def command_problem(process: subprocess.Popen, seconds: float = LIMIT_SECONDS) -> str:
    """Why a command did not end in time and without an error; "" if it did."""
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"it did not end within {seconds:.0f} s"
    return f"it ended with status {status}" if status else ""


def server_problem(process: subprocess.Popen, output: IO[str]) -> str:
    """Why a server did not answer, or did not end when it was interrupted; "" if it did both."""
    late = time.monotonic() + UP_SECONDS
    while not (found := re.search(r"http://[\w.]+:\d+", text_of(output))):
        if process.poll() is not None:
            return f"it ended with status {process.returncode}"
        if time.monotonic() > late:
            return f"it gave no address within {UP_SECONDS:.0f} s"
        time.sleep(0.2)
    try:
        urllib.request.urlopen(found[0], timeout=STOP_SECONDS).close()
    except urllib.error.HTTPError:
        pass  # an answer too: `rookery serve` has no page at /
    except OSError as error:
        return f"it did not answer: {error}"
    process.send_signal(signal.SIGINT)
    return command_problem(process, STOP_SECONDS)


def text_of(output: IO[str]) -> str:
    """All that was written to a file which other processes write."""
    return os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")


def end_group(process: subprocess.Popen) -> None:
    """Ends a command with whatever it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
    # Where a script started this in its background, Ctrl-C is ignored. Children inherit that, but no handler of ours.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rookery-wheel-") as name:
        folder = Path(name)
        print(f"{wheel.name}: installing it where there is no compiler ...", flush=True)
        variables = clean_venv(folder / "venv", wheel)
        reader, tests = folder / "reader", folder / "tests"
        reader_folder(reader, next((folder / "venv" / "lib").glob("python*/site-packages")))
        tests.mkdir()
        asked = [short for line in commands() if (short := as_run(line))]
        results = [passes(command, reader, variables) for command in (*PREPARE, *asked)]
        results.append(python_blocks_pass(tests, variables))
    print(f"{wheel.name}: {sum(results)} of {len(results)} commands passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
