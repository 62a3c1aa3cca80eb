"""Every page: its Python runs, its commands are understood, its links lead somewhere, its words are plain.

A comment before a block of Python says how it is treated: `<!-- not run: needs a GPU -->` (or what else tests do
not have), `<!-- slow: why -->` (only in `make test-all`).
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

from docs.pages import PAGES, ROOT, SRC, anchors, blocks
from rookery.cli.main import build_parser
from rookery.config import collect_config

NOT_RUN = 3  # blocks of Python that no test runs
# Run, and their results compared, in test_readme.py and test_training_page.py.
TESTED_ELSEWHERE = {"README.md", "docs/tour.md", "docs/training.md", "docs/own-code.md", "docs/learners.md"}
# Each takes two to ten CPU seconds: run in `make test-all`.
LONG = {
    "docs/markets.md", "docs/api.md", "docs/goals.md", "docs/search.md", "docs/rewind.md",
    "docs/coming-from/stable-baselines3.md",
}  # fmt: skip
# The same in less time: shorter measurements, and envs in this process.
SHORTER = {
    r"seconds=1\.0": "seconds=0.02",
    r"games=100": "games=4",
    r'8, backend="process", workers=2': '2, backend="serial"',
    r"(make_vec\(.*(?:MyEnv|make_hard|CartPole-v1\", num_envs=8).*?)\)(?=\s*(?:#|$))": r'\1, backend="serial")',
    r"workers=16, ": "",
}

# What a page's code takes for granted.
ENGINE = '''
import gymnasium as gym
import numpy as np
import rookery

class MyEnv(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, size=1):
        self.size = size

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}

class FewTimes:
    """True for three times, then false, and so on."""
    count = 0

    def __bool__(self):
        self.count += 1
        return self.count % 4 != 0

Wrapper = gym.Wrapper
make_easy = make_hard = MyEnv
policy = lambda observations: np.zeros(len(observations), int)
training = FewTimes()
'''
KERNEL_WORLDS = """
import gymnasium
import numpy as np
import rookery
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.classic import CartPole

plain_env = KernelEnv(CartPole, plain=True)
plain_env.reset(seed=1)
state = plain_env.state
"""
OTHER_LIBRARIES = """
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

VecNormalize(make_vec_env("CartPole-v1")).save("vecnormalize.pkl")
"""
MEADOW = blocks("docs/kernel-worlds.md", "python")[0]
API = """
import os

os.environ.update(SDL_VIDEODRIVER="dummy", MINARI_DATASETS_PATH=os.getcwd())
"""
BEFORE = {
    "docs/atari.md": "import pytest; pytest.importorskip('ale_py')",
    "docs/api.md": API,
    "docs/engine.md": ENGINE,
    "docs/kernel-worlds.md": KERNEL_WORLDS,
    "docs/kernel-worlds-data.md": KERNEL_WORLDS + MEADOW,
    "docs/kernel-worlds-debugging.md": KERNEL_WORLDS + MEADOW,
    "docs/other-libraries.md": OTHER_LIBRARIES,
}
FILES = {
    "docs/engine.md": {"my_env.py": ENGINE},
    "docs/kernel-worlds.md": {"meadow.py": MEADOW},
    "docs/mujoco.md": {
        "swing.py": blocks("docs/mujoco.md", "python")[0],
        "swing.xml": blocks("docs/mujoco.md", "xml")[0],
    },
}

EXAMPLE = re.compile(r"^(?:<!-- (slow|not run): [^\n]+ -->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = {name: EXAMPLE.findall(page) for name, page in PAGES.items()}


COMPILE_SECONDS = 600  # a world that is compiled for the first time takes minutes on a busy machine


def to_run() -> Iterator[object]:
    """Each page with code once; once more, with its slow blocks, if it has some."""
    for name, examples in EXAMPLES.items():
        marks = set() if name in TESTED_ELSEWHERE else {mark for mark, _ in examples}
        if "" in marks:
            yield pytest.param(name, {""}, id=name, marks=[pytest.mark.slow] if name in LONG else [])
        if "slow" in marks:
            yield pytest.param(name, {"", "slow"}, id=f"{name}, all", marks=pytest.mark.slow)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A reader's folder, from which files can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules, ids = set(sys.modules), set(gymnasium.registry)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    for name in set(gymnasium.registry) - ids:
        del gymnasium.registry[name]


def shortened(code: str) -> str:
    for long, short in SHORTER.items():
        code = re.sub(long, short, code, flags=re.MULTILINE)
    return code


@pytest.mark.timeout(COMPILE_SECONDS)
@pytest.mark.parametrize(("page", "marks"), list(to_run()))
def test_python_runs(page, marks, folder):
    """A page's blocks run one after another, as a reader would paste them."""
    for name, text in FILES.get(page, {}).items():
        (folder / name).write_text(text)
    scope = {"__name__": "__main__"}
    exec(BEFORE.get(page, ""), scope)
    codes = [shortened(code) for mark, code in EXAMPLES[page] if mark in marks]
    for code in codes:
        exec(code, scope)
    for value in scope.values():
        if isinstance(value, gymnasium.vector.VectorEnv):
            value.close()
    assert codes and scope.keys() > {"__name__", "__builtins__"}


def test_few_blocks_are_not_run():
    """Only those that need what a test machine does not have."""
    assert sum(mark == "not run" for examples in EXAMPLES.values() for mark, _ in examples) == NOT_RUN


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command in a page's shell blocks, as a shell would split it; a text in quotes may have several lines."""
    for name in PAGES:
        for block in blocks(name, "sh", "bash", "console"):
            words: list[str] = []
            text = ""
            for line in block.splitlines():
                text += line.removeprefix("$ ").removesuffix("\\") + "\n" * (not line.endswith("\\"))
                if line.endswith("\\"):  # the next line continues it
                    continue
                try:
                    words = shlex.split(text, comments=True)
                except ValueError:  # the quotes are still open
                    continue
                text = ""
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words = words[1:]
                if words:
                    yield name, words


def command_list(*programs: str) -> list[object]:
    found = [(name, words) for name, words in commands() if words[0].rpartition("/")[2] in programs]
    return [pytest.param(words, id=f"{Path(name).stem}: {' '.join(words)[:60]}") for name, words in found]


@pytest.fixture
def parser_folder(tmp_path, monkeypatch):
    """A folder with the configs that pages name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "curriculum.toml").write_text(blocks("docs/curriculum.md", "toml")[0])
    (tmp_path / "best.toml").write_text('world = "CartPole-v1"\n')


@pytest.fixture(scope="module")
def parser():
    return build_parser()


@pytest.mark.parametrize("words", command_list("rookery"))
def test_commands_are_understood(words, parser, parser_folder):
    """Verbs and flags exist, and so do the keys after `--set`."""
    options = parser.parse_args([word for word in words[1:] if word != "--help"])
    assert options.command == words[1]
    if words[1] == "train" and len(words) > 2:
        assert "world" in collect_config(options.world, options.set)


@pytest.mark.parametrize("words", command_list("make", "python"))
def test_other_commands_exist(words):
    """Targets of the Makefile, modules and scripts."""
    if words[0] == "make":
        assert re.search(rf"^([\w-]+ )*{words[1]}( [\w-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[1] == "-m":
        assert importlib.util.find_spec(words[2])
    else:
        assert (ROOT / words[1]).is_file()


GENERATED = {"docs/configuration.md"}
LONGEST = {"README.md": 100, "CHANGELOG.md": 1000}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_pages_are_short(page):
    """A longer page is two pages: one for each thing that a reader wants to do."""
    assert len(PAGES[page].splitlines()) <= LONGEST.get(page, 400)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Pages and pictures, and headings on pages."""
    for link in re.findall(r"\]\((?!http)([^)]+)\)", PAGES[page]):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.read_text()), link


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    """Paths from the root of the repository, or of the package."""
    named = re.findall(
        r"(?<![\w/.~])((?:src|tests|benchmarks|configs|docs|engine|kernel|standalone)/[\w./-]*\w)", PAGES[page]
    )
    assert not [path for path in named if not (ROOT / path).exists() and not (SRC / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_named_objects_exist(page):
    """`rookery.package.module.name`, and `rookery.package.module:name`."""
    for dotted in set(re.findall(r"\brookery(?:\.[a-z_]\w*)+(?:[.:]\w+)?", PAGES[page])):
        assert is_defined(dotted.replace(":", ".").split(".")[1:]), dotted


def is_defined(names: list[str]) -> bool:
    """Whether a module has this path, or its module this name. Found by reading: importing would take seconds."""
    folder = SRC
    for number, name in enumerate(names):
        if (folder / name).is_dir():
            folder = folder / name
            continue
        file = folder / f"{name}.py"
        inside = names[number + 1 :]
        if not file.exists():
            file, inside = folder / "__init__.py", names[number:]
        return (
            not inside
            or re.search(rf"^(class |def )?{inside[0]}\b|\bas {inside[0]}\b", file.read_text(), re.M) is not None
        )
    return True
