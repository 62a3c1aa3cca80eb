"""What a search finds, and in how many seconds: rookery against rl_zoo3's tuner, Optuna's plain TPE over the same runs,
and random settings.

    python benchmarks/search_quality.py [--jobs 1] [--worlds NAME ...] [--tools NAME ...] [--repetitions 5]
    python benchmarks/search_quality.py --tools rookery tpe random --trials 4 --steps 4000 --repetitions 2  # short

Called again, it continues: searches that have ended are in a file.

Every tool has 20 trials of 20,000 steps of PPO with one seed each, on one core, on each world, five times. The settings
that it calls best are then trained again by the same library with seeds that no trial had, and the last agents play 50
episodes each in Gymnasium's own env. On `crypto-signal`, bars of crypto with a planted signal, the score is the Sharpe
ratio above holding on bars that no trial had; rl_zoo3 has no such world.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

SIGNAL = "crypto-signal"
WORLDS = ("Acrobot-v1", "Pendulum-v1", "LunarLander-v3", "HalfCheetah-v5", "Hopper-v5", SIGNAL)
TOOLS = ("rookery", "rl_zoo3", "tpe", "random")
TRIALS, STEPS, REPETITIONS = 20, 20_000, 5
SEEDS = (1_001, 1_002, 1_003)  # of the runs that are compared
EPISODES = 50
Act = Callable[[np.ndarray], Any]


class Budget(NamedTuple):
    """What every tool has for a search."""

    trials: int
    steps: int


def played(world: str, act: Act) -> float:
    """The mean return of episodes with the seeds 0, 1, 2, ..."""
    env, returns = gym.make(world), []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=episode)
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


# --- rookery ----------------------------------------------------------------------------------------------------------


def run_config(world: str, budget: Budget, folder: Path) -> dict[str, Any]:
    """What all runs on a world have in common."""
    keys: dict[str, Any] = {"world": world, "steps": budget.steps, "runs_dir": str(folder / "runs")}
    if world != SIGNAL:
        return keys
    from rookery.data.storage import write
    from rookery.data.synth import synthesise

    bars = folder / "bars.parquet"
    write(synthesise(2, 12_000, "1h", seed=5, signal=0.2), bars)
    options = {"data": str(bars), "columns": "close,signal", "lookback": 2}
    return {**keys, "world": "crypto", "learner": "ppo", "world_options": options}


def run_rookery(world: str, repetition: int, budget: Budget, folder: Path) -> tuple[float, list[float]]:
    import rookery

    keys = run_config(world, budget, folder)
    start = time.perf_counter()
    once = {"seeds": 1, "first_seeds": 1, "verify": 0, "seed": repetition, "metric": "evaluation"}
    found = rookery.search(
        keys, n_trials=budget.trials, jobs=1, study_name="study", studies_dir=folder, search=once, verbose=False
    )
    seconds = time.perf_counter() - start
    return seconds, list(_trained(keys, found.best.settings))


def _trained(keys: dict[str, Any], settings: dict[str, Any]) -> Iterator[float]:
    import rookery
    from rookery.config import build_config
    from rookery.studies.space.space import with_settings

    for seed in SEEDS:
        config = with_settings(build_config({**keys, "seed": seed}), settings)
        result = rookery.train(config.model_copy(update={"monitor": _quiet(config)}))
        if keys["world"] == "crypto":
            report = rookery.backtest(result.path)
            yield (report["agent"]["sharpe"] or 0.0) - (report["hold"]["sharpe"] or 0.0)
        else:
            act = result.agent.act
            yield played(keys["world"], lambda seen, act=act: act(seen[None], deterministic=True)[0])


def _quiet(config: Any) -> Any:
    return config.monitor.model_copy(update={"verbose": False, "plot": False, "tensorboard": False})


# --- Optuna over the same space and the same runs ---------------------------------------------------------------------


def run_plain(tool: str, world: str, repetition: int, budget: Budget, folder: Path) -> tuple[float, list[float]]:
    """Its TPE as it is by default, or random settings."""
    import optuna

    import rookery
    from rookery.config import build_config
    from rookery.studies.space.samplers import make_sampler
    from rookery.studies.space.space import SearchSpace, with_settings
    from rookery.training.resolve.resolved_run import resolve_run

    keys = run_config(world, budget, folder)
    start = time.perf_counter()
    plain = build_config({**keys, "search": {"sampler": "random", "seed": repetition}})
    base = resolve_run(plain).config
    space = SearchSpace.of(base)
    tpe = tool == "tpe"
    sampler = optuna.samplers.TPESampler(seed=repetition) if tpe else make_sampler(base.search, space)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    best: tuple[float, dict[str, Any]] = (-np.inf, {})
    for _ in range(budget.trials):
        trial = study.ask()
        settings = space.suggest(trial)
        config = with_settings(plain, settings)
        value = rookery.train(config.model_copy(update={"monitor": _quiet(config)})).evaluation
        study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState.FAIL)
        if value is not None and value > best[0]:
            best = value, settings
    seconds = time.perf_counter() - start
    return seconds, list(_trained(keys, best[1]))


# --- rl_zoo3 ----------------------------------------------------------------------------------------------------------


def run_zoo(world: str, repetition: int, budget: Budget, folder: Path) -> tuple[float, list[float]]:
    import optuna

    storage = f"sqlite:///{folder / 'zoo.db'}"
    common = [
        "--algo", "ppo", "--env", world, "-n", str(budget.steps), "--device", "cpu", "--verbose", "0",
        "--storage", storage, "--study-name", "zoo",
    ]  # fmt: skip
    start = time.perf_counter()
    _zoo(folder, *common, "-optimize", "--n-trials", str(budget.trials), "--seed", str(repetition), "--no-optim-plots")
    seconds = time.perf_counter() - start
    study = optuna.load_study(study_name="zoo", storage=storage)
    number = study.best_trial.number
    if number == 0:  # which rl_zoo3 2.9 takes for no trial at all
        study.add_trial(study.best_trial)
        number = len(study.trials) - 1
    scores = []
    for seed in SEEDS:
        logs = folder / f"seed-{seed}"
        _zoo(folder, *common, "--trial-id", str(number), "--seed", str(seed), "--eval-freq", "-1", "-f", str(logs))
        scores.append(played(world, _zoo_agent(next(logs.glob(f"ppo/{world}_*")), world)))
    return seconds, scores


def _zoo(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "rl_zoo3.train", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )


def _zoo_agent(logs: Path, world: str) -> Act:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    model, scaling = PPO.load(logs / f"{world}.zip", device="cpu"), logs / world / "vecnormalize.pkl"
    if not scaling.exists():
        return lambda observation: model.predict(observation, deterministic=True)[0]
    scale = VecNormalize.load(str(scaling), DummyVecEnv([lambda: gym.make(world)]))  # written by the line before
    return lambda observation: model.predict(scale.normalize_obs(observation), deterministic=True)[0]


# --- the table --------------------------------------------------------------------------------------------------------

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
RUN = {
    "rookery": run_rookery, "rl_zoo3": run_zoo, "tpe": partial(run_plain, "tpe"), "random": partial(run_plain, "random")
}  # fmt: skip


Job = tuple[str, str, int, int, int]  # tool, world, repetition, trials, steps


def measure(job: Job, cores: SimpleQueue[int], file: Path) -> None:
    """One search in a process of its own, on one core of its own. What it found is added to the file."""
    tool, world, repetition, trials, steps = job
    core = cores.get()
    words = ["--core", core, "--one", tool, world, repetition, "--trials", trials, "--steps", steps]
    command = [sys.executable, __file__, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    cores.put(core)
    if done.returncode:
        print(f"{world} {tool} {repetition} failed:\n{done.stderr[-2000:]}", flush=True)
        return
    found = json.loads(done.stdout.strip().splitlines()[-1])
    with file.open("a") as kept:
        print(json.dumps({"job": job, **found}), file=kept)
    print(f"{world} {tool} {repetition}: {found['score']:.1f} in {found['seconds']:.0f} s", flush=True)


def finished(file: Path) -> dict[Job, dict[str, Any]]:
    """The searches that have ended: each is made once."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {(*row["job"],): row for row in rows}


def measure_all(jobs: list[Job], file: Path, at_a_time: int) -> dict[Job, dict[str, Any]]:
    file.parent.mkdir(parents=True, exist_ok=True)
    cores: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    done = finished(file)
    with ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(lambda job: measure(job, cores, file), [job for job in jobs if job not in done]))
    return finished(file)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % of the means of samples with replacement."""
    draws = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time (1)")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--trials", type=int, default=TRIALS, help="of a search (%(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a trial (%(default)s)")
    parser.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument(
        "--results", type=Path, default=Path("build/search_quality.jsonl"),
        help="a line for each search that has ended, which is not made again (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, metavar=("TOOL", "WORLD", "REPETITION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    budget = Budget(options.trials, options.steps)
    if options.one:
        tool, world, repetition = options.one
        os.sched_setaffinity(0, {options.core})
        with tempfile.TemporaryDirectory() as folder:
            seconds, scores = RUN[tool](world, int(repetition), budget, Path(folder))
        print(json.dumps({"seconds": seconds, "score": float(np.mean(scores)), "scores": scores}))
        return
    tools = {world: [t for t in options.tools if (t, world) != ("rl_zoo3", SIGNAL)] for world in options.worlds}
    repetitions = range(options.repetitions)
    jobs = [(tool, world, k, *budget) for k in repetitions for world in options.worlds for tool in tools[world]]
    found = measure_all(jobs, options.results, options.jobs)
    print(f"\n{'world':14} {'tool':8} {'score':>9} {'seconds':>8}   rookery's score less this one's, 95 % interval")
    for world in options.worlds:
        for tool in tools[world]:
            ours, theirs = ([found.get((name, world, k, *budget)) for k in repetitions] for name in ("rookery", tool))
            both = [pair for pair in zip(ours, theirs, strict=True) if None not in pair]
            print(f"{world:14} {tool:8} {row_of(both)}")
    if missing := [job[:3] for job in jobs if job not in found]:
        raise SystemExit(f"{len(missing)} of {len(jobs)} searches failed: {missing}")


def row_of(pairs: list[tuple[Any, ...]]) -> str:
    """Scores, seconds and the difference, of repetitions in which rookery's search and this one ended."""
    if not pairs:
        return "no search ended"
    ours, scores, seconds = np.array([(own["score"], row["score"], row["seconds"]) for own, row in pairs]).T
    low, high = interval(ours - scores)
    against = f"{np.mean(ours - scores):8.1f}  ({low:.1f} to {high:.1f})" if any(a is not b for a, b in pairs) else ""
    return f"{scores.mean():9.1f} {seconds.mean():8.1f}   {against}"


if __name__ == "__main__":
    main()
