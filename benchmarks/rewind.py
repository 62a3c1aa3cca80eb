"""Whether moments of runs repeat bit for bit, and differences and bad updates are found: `make bench-rewind`, or

python benchmarks/rewind.py [--only NAME ...] [--moments 10] [--device cuda] [--json FILE]

moments   random moments of ten kinds of runs on the CPU: all that a checkpoint holds (weights, optimizer, random
          generators, envs, replay, league) against an uninterrupted run that was stopped there
fork      forks with nothing changed, to the end, against their parents
diff      pairs of runs with one planted difference: a seed, a setting, the last bit of a weight, one env's action
blame     runs with one planted bad update: the learning rate times 100, or a layer of the wrong sign
time      seconds to any update of a run, from its nearest checkpoint: of long runs with default settings, of which the
          first minute is trained, the moments that are furthest from a checkpoint; their disk is extrapolated
cost      CPU seconds of what runs record for it, as a share of a short run's; the seconds and the disk that checkpoints
          take by default

With `--device cuda`: moments and forks of runs on the GPU, and the time to any update of a whole run of 100 M steps.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import rookery
from engine_rows import Row
from report import measured, parser_for, report
from rookery.training.storage.checkpoint import Checkpoints
from training.rewind.planted import ACTION, BIT, RATE, SIGN, planted_file
from training.rewind.truth import comparable, state_at
from training.runs import differences, small

GAMES = Path(__file__).parents[1] / "tests/kernel/board_games.py"
OFTEN: dict[str, Any] = {"evaluation": {"episodes": 1, "every": 512}, "checkpoints": {"every": 128}}
TD3 = {"hidden": [16], "batch_size": 16, "start_steps": 64, "buffer_size": 400, "threads": 1}
PHASES = [{"steps": 200, "learner": {"learning_rate": 1e-3}}, {"steps": 1000, "learner": {"learning_rate": 1e-4}}]
LEAGUE = {"world": f"{GAMES}:TicTacToe", "opponents": ["self", "random", "archive"], "league": {"every": 64}}


def kinds(folder: Path) -> dict[str, dict[str, Any]]:
    """Configurations of runs of 512 steps, by a name."""
    make = partial(small, folder=folder, steps=512, **OFTEN)
    found = {
        "PPO, kernel": make("ppo", backend="kernel"),
        "PPO, processes": make("ppo", backend="process", workers=2),
        "PPO, recurrent, normalised": make(
            "ppo", backend="serial", ppo={"recurrent": 8, "normalise_observations": True}
        ),
        "SAC, kernel": make("sac", backend="kernel"),
        "DQN, kernel": make("dqn", backend="kernel"),
        "DQN, processes": make("dqn", backend="process", workers=2),
        "TD3, kernel": {**make("sac", backend="kernel"), "learner": "td3", "td3": TD3},
        "PPO, curriculum": make("ppo", phases=PHASES),
        "DQN, curriculum": make("dqn", phases=PHASES),
        "PPO, league": make("ppo", **LEAGUE),
    }
    return {name: {**config, "name": name.replace(", ", "-")} for name, config in found.items()}


def train(config: dict[str, Any]) -> rookery.Result:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return rookery.train(config)


def gpu_kinds(folder: Path) -> dict[str, dict[str, Any]]:
    """Those that train completely on a GPU."""
    make = partial(small, folder=folder, steps=2048, num_envs=16, device="cuda", backend="cuda", **OFTEN)
    found = {f"{learner}, GPU": make(learner) for learner in ("ppo", "dqn", "sac")}
    found["td3, GPU"] = {**make("sac"), "learner": "td3", "td3": TD3}
    return {name: {**config, "name": name.replace(", ", "-")} for name, config in found.items()}


def moments(folder: Path, each: int, device: str) -> Iterator[Row]:
    """Random moments, the same in every measurement."""
    drawn, same, total = random.Random(1), 0, 0
    listed = kinds if device == "cpu" else gpu_kinds
    for name, config in listed(folder / "moments").items():
        result, equal = train(config), 0
        for _ in range(each):
            step = drawn.randrange(result.total_steps + 1)
            with contextlib.redirect_stderr(io.StringIO()), rookery.rewind(result, at=step) as live:
                again, reached = comparable(live.state()), live.step
            with contextlib.redirect_stderr(io.StringIO()):
                truth = state_at(config, reached, folder / "truth")
            equal += live.exact and reached <= step and not differences(listed_less(again), listed_less(truth))
        same, total = same + equal, total + each
        yield Row(f"{name}: identical moments", f"{equal}/{each}", "", equal, each, "")
    yield Row("random moments of all these runs: identical", f"{same}/{total}", "", same, total, "")


def listed_less(tree: dict[str, Any]) -> dict[str, Any]:
    """On a GPU, episodes are counted when somebody looks, and which of them are listed depends on when that was: their
    returns and lengths are not compared, but their number is. Runs on the CPU list all."""
    if "next_params" not in tree["envs"].get("engine", {}).get("arrays", {}):
        return tree
    episodes = {"count": tree["loop"]["episodes"]["count"]}
    return {**tree, "loop": {**tree["loop"], "episodes": episodes}}


def forks(folder: Path, device: str) -> Iterator[Row]:
    configs, same = (kinds if device == "cpu" else gpu_kinds)(folder / "fork"), 0
    names = ("PPO, kernel", "DQN, kernel", "PPO, curriculum", "PPO, league") if device == "cpu" else tuple(configs)
    for name in names:
        parent = train(configs[name])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            made = rookery.fork(parent, at=300, runs_dir=parent.path.parent)
        same += not differences(*(listed_less(last_tree(run)) for run in (made, parent)))
    yield Row("forks with nothing changed: equal to the parent", f"{same}/{len(names)}", "", same, len(names), "")


def planted(folder: Path, drawn: random.Random) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Changes of a run's configuration, and what `diff` must find."""
    for seed in range(6, 11):
        yield {"seed": seed}, {"step": 0}
    for setting in ({"gamma": 0.9}, {"entropy": 0.01}, {"epochs": 3}, {"gae_lambda": 0.9}, {"learning_rate": 1e-3}):
        yield {"ppo": setting}, {"step": 64, "update": 1}
    for k in range(5):
        update, layer = drawn.randrange(1, 8), drawn.choice(["actor.layers.0.weight", "critic.layers.1.weight"])
        values = {"update": update, "layer": layer, "place": drawn.randrange(16)}
        name = planted_file(folder / "code", f"bit{k}", BIT, **values)
        yield {"callbacks": [name]}, {"step": 64 * update, "update": update, "layer": layer}
    for k in range(8):
        step, env = 4 * drawn.randrange(1, 120), drawn.randrange(4)
        name = planted_file(folder / "code", f"action{k}", ACTION, step=step, env=env)
        yield {"callbacks": [name]}, {"step": step + 4, **({} if (step + 4) % 64 == 0 else {"env": env})}


def diffs(folder: Path) -> Iterator[Row]:
    base = partial(small, "ppo", folder / "diff", steps=512, backend="serial", checkpoints={"every": 128})
    one, found, total = train(base(name="base")), 0, 0
    for changes, wanted in planted(folder, random.Random(2)):
        other = train({**base(name=f"other-{total}", **changes)})
        if not differences(last_tree(one), last_tree(other)):  # an action in the last step of an episode may do nothing
            continue
        with contextlib.redirect_stderr(io.StringIO()):
            parted = rookery.diff(one, other)
        right = all(getattr(parted, name) == value for name, value in wanted.items())
        found, total = found + right, total + 1
        if not right:
            print(changes, wanted, parted, file=sys.stderr)
        if total == 20:
            break
    yield Row("diff of pairs with one planted difference: the first place", f"{found}/{total}", "", found, 20, "")


def last_tree(run: rookery.Result) -> dict[str, Any]:
    return comparable(Checkpoints(run.path / "checkpoints").load_latest()[1])


def blames(folder: Path) -> Iterator[Row]:
    """PPO that learns CartPole, with one bad update of its ninety. Some planted updates do no harm: runs are made until
    ten have evaluations that fall there. The window is found by blame itself."""
    found, runs, tried, steps = 0, 0, 0, 1024
    options = {"rollout_length": 64, "epochs": 4, "hidden": [64, 64], "learning_rate": 1e-3, "gamma": 0.99}
    while runs < 10 and tried < 30:
        bad, tried = 50 + tried, tried + 1
        template, values = (SIGN, {"update": bad}) if tried % 3 == 0 else (RATE, {"update": bad, "factor": 100})
        name = planted_file(folder / "code", f"bad{tried}", template, **values)
        config = small(
            "ppo", folder / "blame", num_envs=16, steps=90 * steps, ppo=options, callbacks=[name], seed=tried
        )
        run = train({**config, "evaluation": {"episodes": 10, "every": 4 * steps}, "checkpoints": {"every": 8 * steps}})
        if not falls_at(run.path, bad * steps):
            continue
        with contextlib.redirect_stderr(io.StringIO()):
            blamed = rookery.blame(run)
        right = any(one.first_update <= bad <= one.last_update for one in blamed.suspects)
        runs, found = runs + 1, found + right
        if not right:
            print(tried, bad, blamed.windows, [str(one) for one in blamed.suspects], file=sys.stderr)
    what = f"{tried} planted, {tried - runs} harmless"
    yield Row("blame on runs with a planted bad update: named", f"{found}/{runs}", what, found, 9, "")


def falls_at(run: Path, step: int) -> bool:
    """Whether the two evaluations after a step are lower than the two before by 100."""
    rows = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    before = [row["eval/return"] for row in rows if row["step"] < step][-2:]
    after = [row["eval/return"] for row in rows if row["step"] >= step][:2]
    return sum(before) / len(before) - sum(after) / len(after) > 100


def times(folder: Path, device: str) -> Iterator[Row]:
    """Of runs with default settings."""
    if device != "cpu":
        words = ["CartPole-v1", "--device", device, "--num-envs", "8192", "--steps", "100_000_000"]
        yield from furthest("a 100 M-step CartPole run on the GPU", words, folder, None, 2)
        return
    yield from furthest("a 5 M-step hockey run", ["hockey", "--steps", "5_000_000"], folder, 75, 30)
    yield from furthest("a 100 M-step CartPole run", ["CartPole-v1", "--steps", "100_000_000"], folder, 75, 30)
    yield from short_run(folder)


def furthest(what: str, words: list[str], folder: Path, seconds: float | None, most: float) -> Iterator[Row]:
    """The slowest of six moments: at the ends of the three widest gaps between checkpoints, and three others. The run
    is stopped after so many seconds: what follows is as far from its checkpoints, as they are made by the clock."""
    name = f"long-{words[0]}"
    command = [
        sys.executable,
        "-m",
        "rookery",
        "train",
        *words,
        "--name",
        name,
        "--runs-dir",
        str(folder),
        "--no-panel",
    ]
    process = subprocess.Popen([*command, "--set", "monitor.plot=false"], stdout=subprocess.PIPE, text=True)
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it saves and ends
        process.communicate()
    path = folder / name
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    steps, trained = rows[-1]["step"], rows[-1].get("seconds", 0.0)
    kept = Checkpoints(path / "checkpoints").entries()
    size = sum(file.stat().st_size for file in kept[-1].path.iterdir()) / 1e6
    places = [0, *(entry.step for entry in kept), steps]
    gaps = sorted(itertools.pairwise(places), key=lambda pair: pair[0] - pair[1])
    drawn, longest, far = random.Random(3), 0.0, 0
    for at in [*(end - 1 for _, end in gaps[:3]), *(drawn.randrange(steps) for _ in range(3))]:
        started = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()), rookery.rewind(path, at=at) as live:
            took = time.perf_counter() - started
            print(
                f"{what}, step {live.step:,}: {took:.1f} s from {live.as_json()['began_at']:,}; {live.verdict}",
                file=sys.stderr,
            )
        longest, far = (took, at) if took > longest else (longest, far)
    wanted = int(words[words.index("--steps") + 1].replace("_", ""))
    count = len(kept) * wanted / steps
    disk = f"{len(kept)} checkpoints of {size:.2f} MB in {trained:.0f} s and {steps:,} steps"
    if wanted > 1.01 * steps:
        disk += f"; the whole run: {count:.0f}, {count * size:.0f} MB, {trained * wanted / steps:.0f} s"
    yield Row(
        f"any update of {what}, the slowest of 6 (step {far:,})", f"{longest:.1f} s", disk, longest, most, " s", True
    )


def short_run(folder: Path) -> Iterator[Row]:
    """Of a run of ten checkpoints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run = rookery.train(
            "CartPole-v1", steps=1_000_000, num_envs=64, runs_dir=folder / "time", monitor={"plot": False}
        )
    drawn, longest = random.Random(3), 0.0
    for _ in range(8):
        started = time.perf_counter()
        with rookery.rewind(run, at=drawn.randrange(run.total_steps)):
            longest = max(longest, time.perf_counter() - started)
    full = f"{run.seconds:.1f} s to train"
    yield Row(
        "any moment of a 1 M-step CartPole run, the slowest of 8", f"{longest:.1f} s", full, longest, 30, " s", True
    )


def costs(folder: Path) -> Iterator[Row]:
    """What `note_opening` and the hashes of agents take, over the CPU time of a run of ten checkpoints."""
    from rookery.training.storage import checkpoint, run_history
    from rookery.training.storage.run_dir import RunDir

    started = time.process_time()
    run = train(small("ppo", folder / "cost", steps=100_000, num_envs=16, checkpoints={"every": 10_000}))
    whole = time.process_time() - started
    other = RunDir.create(folder / "cost", "other")
    saved = Checkpoints(run.path / "checkpoints").latest()
    started = time.process_time()
    run_history.note_opening(other, 0, None, {})
    for _ in range(10):
        checkpoint.saved_digest(saved)
    share = 100 * (time.process_time() - started) / whole
    yield Row("what a run of seconds records for it", f"{share:.2f} %", f"{whole:.1f} CPU s", share, 1.0, " %", True)
    yield from default_costs(folder)


def default_costs(folder: Path) -> Iterator[Row]:
    """What saving takes of the time of a run with checkpoints as they are by default, and of the disk that it may
    use."""
    from rookery.training.run.loop import Loop

    seconds, save = 0.0, Loop.save

    def timed(*args: Any, **options: Any) -> None:
        nonlocal seconds
        started = time.perf_counter()
        save(*args, **options)
        seconds += time.perf_counter() - started

    with patch.object(Loop, "save", timed), contextlib.redirect_stdout(io.StringIO()):
        quiet = {"plot": False, "panel": False, "verbose": False}
        run = rookery.train("CartPole-v1", steps=3_000_000, runs_dir=folder / "usual", device="cpu", monitor=quiet)
    place, share = run.path / "checkpoints", 100 * seconds / run.seconds
    disk = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e6
    what = f"{len(Checkpoints(place).steps())} checkpoints in {run.seconds:.0f} s"
    yield Row("saving, of a run with default checkpoints", f"{share:.2f} %", what, share, 1.0, " %", True)
    budget = json.loads((run.path / "config.json").read_text())["checkpoints"]["budget"]
    yield Row("its disk, within the budget", f"{disk:.1f} MB", f"{budget:g} MB", disk, budget, " MB", True)


def main() -> int:
    names = ("moments", "fork", "diff", "blame", "time", "cost")
    parser = parser_for(__doc__, names)
    parser.add_argument("--moments", type=int, default=10, help="of each kind of run (default: %(default)s)")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where runs train (default: %(default)s)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        on = {"device": options.device}
        rows: dict[str, Any] = {"moments": partial(moments, each=options.moments, **on), "fork": partial(forks, **on),
                                "time": partial(times, **on)}  # fmt: skip
        if options.device == "cpu":
            rows |= {"diff": diffs, "blame": blames, "cost": costs}
        chosen = {name: partial(measure, folder) for name, measure in rows.items()}
        results = measured(chosen, options.only, options.json)
    return report(results, "Rewind", options.json)


if __name__ == "__main__":
    sys.exit(main())
