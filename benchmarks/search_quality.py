"""What a search finds, and in how many seconds: rookery against rl_zoo3's tuner and against random settings.

Every tool has 20 trials of 20,000 steps of PPO with one seed each, on one core, on Acrobot and on Pendulum, five
times. The settings that it calls best are then trained again by the same library with seeds that no trial had, and the
last agents play 50 episodes each in Gymnasium's own env. `python benchmarks/search_quality.py [--jobs 1]`
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
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import gymnasium as gym
import numpy as np

WORLDS = ("Acrobot-v1", "Pendulum-v1")
TOOLS = ("rookery", "rl_zoo3", "random")
TRIALS, STEPS, REPETITIONS = 20, 20_000, 5
SEEDS = (1_001, 1_002, 1_003)  # of the runs that are compared
EPISODES = 50
Act = Callable[[np.ndarray], Any]


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


def run_rookery(world: str, repetition: int, folder: Path) -> tuple[float, list[float]]:
    import rookery

    start = time.perf_counter()
    once = {"seeds": 1, "first_seeds": 1, "verify": 0, "seed": repetition}
    found = rookery.search(
        world, n_trials=TRIALS, steps=STEPS, jobs=1, study_name="study", studies_dir=folder, search=once,
        verbose=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    return seconds, list(_trained(world, found.best.settings, folder))


def _trained(world: str, settings: dict[str, Any], folder: Path) -> Iterator[float]:
    import rookery
    from rookery.config import build_config
    from rookery.studies.space.space import with_settings

    for seed in SEEDS:
        config = with_settings(
            build_config({"world": world, "steps": STEPS, "seed": seed, "runs_dir": str(folder / "again")}), settings
        )
        agent = rookery.train(config.model_copy(update={"monitor": _quiet(config)})).agent
        yield played(world, lambda observation, agent=agent: agent.act(observation[None], deterministic=True)[0])


def _quiet(config: Any) -> Any:
    return config.monitor.model_copy(update={"verbose": False, "plot": False, "tensorboard": False})


# --- random settings of the same space --------------------------------------------------------------------------------


def run_random(world: str, repetition: int, folder: Path) -> tuple[float, list[float]]:
    import optuna

    import rookery
    from rookery.config import build_config
    from rookery.studies.space.samplers import make_sampler
    from rookery.studies.space.space import SearchSpace, with_settings
    from rookery.training.resolve.resolved_run import resolve_run

    start = time.perf_counter()
    plain = build_config({"world": world, "steps": STEPS, "search": {"sampler": "random", "seed": repetition}})
    base = resolve_run(plain).config
    space = SearchSpace.of(base)
    study = optuna.create_study(direction="maximize", sampler=make_sampler(base.search, space))
    best: tuple[float, dict[str, Any]] = (-np.inf, {})
    for _ in range(TRIALS):
        settings = space.suggest(study.ask())
        config = with_settings(plain, settings).model_copy(update={"runs_dir": str(folder / "runs")})
        value = rookery.train(config.model_copy(update={"monitor": _quiet(config)})).evaluation
        if value is not None and value > best[0]:
            best = value, settings
    seconds = time.perf_counter() - start
    return seconds, list(_trained(world, best[1], folder))


# --- rl_zoo3 ----------------------------------------------------------------------------------------------------------


def run_zoo(world: str, repetition: int, folder: Path) -> tuple[float, list[float]]:
    import optuna

    storage = f"sqlite:///{folder / 'zoo.db'}"
    common = [
        "--algo", "ppo", "--env", world, "-n", str(STEPS), "--device", "cpu", "--verbose", "0",
        "--storage", storage, "--study-name", "zoo",
    ]  # fmt: skip
    start = time.perf_counter()
    _zoo(folder, *common, "-optimize", "--n-trials", str(TRIALS), "--seed", str(repetition), "--no-optim-plots")
    seconds = time.perf_counter() - start
    best = optuna.load_study(study_name="zoo", storage=storage).best_trial
    scores = []
    for seed in SEEDS:
        logs = folder / f"seed-{seed}"
        _zoo(folder, *common, "--trial-id", str(best.number), "--seed", str(seed), "--eval-freq", "-1", "-f", str(logs))
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
RUN = {"rookery": run_rookery, "rl_zoo3": run_zoo, "random": run_random}


def measure(tool: str, world: str, repetition: int, cores: SimpleQueue[int]) -> dict[str, Any]:
    """One search in a process of its own, on one core of its own."""
    core = cores.get()
    command = [sys.executable, __file__, "--core", str(core), "--one", tool, world, str(repetition)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    cores.put(core)
    if done.returncode:
        raise SystemExit(f"{tool} on {world} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{world} {tool} {repetition}: {found['score']:.1f} in {found['seconds']:.0f} s", flush=True)
    return found


def interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % of the means of samples with replacement."""
    draws = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time (1)")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    parser.add_argument("--worlds", nargs="+", default=WORLDS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, metavar=("TOOL", "WORLD", "REPETITION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        tool, world, repetition = options.one
        os.sched_setaffinity(0, {options.core})
        with tempfile.TemporaryDirectory() as folder:
            seconds, scores = RUN[tool](world, int(repetition), Path(folder))
        print(json.dumps({"seconds": seconds, "score": float(np.mean(scores)), "scores": scores}))
        return
    jobs = [(tool, world, k) for k in range(options.repetitions) for world in options.worlds for tool in options.tools]
    cores: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(lambda job: measure(*job, cores), jobs), strict=True))
    print(f"\n{'world':12} {'tool':8} {'score':>9} {'seconds':>8}   rookery's score less this one's, 95 % interval")
    for world in options.worlds:
        own = np.array([found[("rookery", world, k)]["score"] for k in range(options.repetitions)])
        for tool in options.tools:
            rows = [found[(tool, world, k)] for k in range(options.repetitions)]
            scores, seconds = (np.array([row[name] for row in rows]) for name in ("score", "seconds"))
            low, high = interval(own - scores)
            against = "" if tool == "rookery" else f"{np.mean(own - scores):8.1f}  ({low:.1f} to {high:.1f})"
            print(f"{world:12} {tool:8} {scores.mean():9.1f} {seconds.mean():8.1f}   {against}")


if __name__ == "__main__":
    main()
