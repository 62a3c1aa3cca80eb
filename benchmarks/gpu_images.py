"""PPO on images on one GPU: Catch (84 x 84 x 4), the Nature network, 1,024 envs.

    python benchmarks/gpu_images.py [--only plain sb3] [--json FILE]
    python benchmarks/gpu_images.py --sides captured tf32 float32 plain   # steps/s of each

Every row makes the same steps of the same world on the same GPU, with 4 epochs of 4 minibatches: env steps per second
of whole iterations, after one that warms up.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch

from engine_rows import Row, ratio_row
from report import measured, parser_for, report
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.captured_call import CapturedCall
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.learners.registry import PPOOptions
from rookery.worlds.catch import Catch

ENVS, LENGTH = 1_024, 128
OPTIONS: dict[str, Any] = {"epochs": 4, "minibatches": 4, "hidden": [], "activation": "relu", "learning_rate": 2.5e-4}


class Iterations:
    """Rollouts and updates of one learner on the GPU, as a run makes them."""

    def __init__(
        self, envs: int = ENVS, length: int = LENGTH, device: str = "cuda", seed: int = 1, **options: Any
    ) -> None:
        mode = autoreset("same_step")
        self.envs = CudaEngine(resolve(Catch), Settings(envs, autoreset_mode=mode, copy=False), device=device)
        self.envs.reset(seed=seed)
        spaces = self.envs.single_observation_space, self.envs.single_action_space
        self.learner = PPO(*spaces, PPOOptions(rollout_length=length, **OPTIONS, **options), envs, seed, device)
        self.rows, self.steps = slice(0, envs), envs * length
        learner, generators = self.learner, [self.learner.generator]
        state = self.envs.device_state
        self.metrics = torch.zeros(5, device=device)
        captured = learner.options.accelerate
        kind = CapturedCall if captured else _Called
        self.rollout = kind(
            self._collect, learner.device, state=lambda: [*state(), learner.memory], generators=generators
        )
        self.update = kind(self._learn, learner.device, state=learner.execution.stays, generators=generators)

    def _collect(self) -> None:
        learner, envs = self.learner, self.envs
        learner.rollout.clear()
        observations, _ = envs.present()
        for _ in range(learner.rollout.length):
            observations, rewards, terminated, truncated, infos = envs.step(learner.explore(observations, self.rows))
            finals = TensorFinals(infos["_final_obs"], infos["final_obs"])
            learner.record(self.rows, StepBatch(observations, rewards, terminated, truncated, finals))

    def _learn(self) -> None:
        self.metrics.copy_(self.learner.execution.learn(self._clip))

    def __call__(self) -> None:
        self.rollout()
        self._clip = self.learner.execution.follow_schedules()
        self.update()
        self.learner.rollout.forget()
        self.learner.updates += 1


class _Called:
    """What is launched kernel by kernel, in the place of a `CapturedCall`."""

    def __init__(self, function: Callable[[], None], *_: Any, **__: Any) -> None:
        self._function = function

    def __call__(self) -> None:
        self._function()


def measured_rate(make: Callable[[], Any], seconds: float, name: str) -> float:
    """Steps per second."""
    started = time.perf_counter()
    work = make()
    work()
    torch.cuda.synchronize()
    first, count, began = time.perf_counter() - started, 0, time.perf_counter()
    while count < 2 or time.perf_counter() - began < seconds:
        work()
        torch.cuda.synchronize()
        count += 1
    rate = work.steps * count / (time.perf_counter() - began)
    memory = torch.cuda.max_memory_allocated() / 2**30
    print(f"{name:44s} {rate:12,.0f} steps/s   first iteration {first:5.1f} s   {memory:5.1f} GiB", flush=True)
    del work
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return rate


# --- Stable-Baselines3 --------------------------------------------------------------------------------------------


def sb3_iterations(envs: int = ENVS, length: int = 16, device: str = "cuda") -> Any:
    """Its PPO on the same envs. Its rollout buffer is in the host's memory: `length` is shorter, the steps are as many
    as are requested, and the minibatches are of the same number."""
    from stable_baselines3 import PPO as Sb3PPO
    from stable_baselines3.common.vec_env import VecEnv

    class Envs(VecEnv):
        """Catch on the GPU; Stable-Baselines3 takes arrays."""

        def __init__(self) -> None:
            mode = autoreset("same_step")
            self.engine = CudaEngine(resolve(Catch), Settings(envs, autoreset_mode=mode, copy=False), device=device)
            super().__init__(envs, self.engine.single_observation_space, self.engine.single_action_space)

        def reset(self) -> Any:
            return self.engine.reset(seed=1)[0].cpu().numpy()

        def step_async(self, actions: Any) -> None:
            self.actions = torch.from_numpy(np.asarray(actions)).to(device)

        def step_wait(self) -> Any:
            observations, rewards, terminated, truncated, infos = self.engine.step(self.actions)
            done, cut = (terminated | truncated).cpu().numpy(), truncated.cpu().numpy()
            told: list[dict[str, Any]] = [{} for _ in range(envs)]
            for env in np.flatnonzero(done):
                told[env]["TimeLimit.truncated"] = bool(cut[env])
                told[env]["terminal_observation"] = infos["final_obs"][env].cpu().numpy()
            return observations.cpu().numpy(), rewards.cpu().numpy(), done, told

        def close(self) -> None:
            self.engine.close()

        def env_is_wrapped(self, *_: Any, **__: Any) -> list[bool]:
            return [False] * envs

        def _none(self, *_: Any, **__: Any) -> Any:
            return [None] * envs

        env_method = get_attr = set_attr = _none

    model = Sb3PPO(
        "CnnPolicy", Envs(), n_steps=length, batch_size=envs * length // 4, n_epochs=4, learning_rate=2.5e-4,
        device=device, verbose=0,
    )  # fmt: skip

    class Sb3:
        """One iteration: a rollout and an update."""

        steps = envs * length

        def __call__(self) -> None:
            model.learn(self.steps, reset_num_timesteps=False)

    return Sb3()


SIDES: dict[str, Callable[[], Any]] = {
    "captured": Iterations,
    "tf32": lambda: Iterations(precision="tf32"),
    "float32": lambda: Iterations(precision="float32"),
    "plain": lambda: Iterations(accelerate=False),
    "sb3": sb3_iterations,
}


def image_rows(seconds: float = 3.0) -> dict[str, Callable[[], list[Row]]]:
    """By the names of the command line. The captured learner is measured once."""

    @cache
    def rate(name: str) -> float:
        return measured_rate(SIDES[name], seconds, name)

    def row(other: str, words: str, least: float) -> list[Row]:
        ours, theirs = np.array([rate("captured")]), np.array([rate(other)])
        return [ratio_row(f"PPO on 84x84x4 images, {ENVS:,} envs, steps/s / {words}", ours, theirs, least)]

    return {
        "plain": lambda: row("plain", "the plain learner", 3.0),
        "sb3": lambda: row("sb3", "SB3", 5.0),
    }


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, image_rows())
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side (default: %(default)s)")
    parser.add_argument("--sides", nargs="*", choices=list(SIDES), help="measure these, without a table")
    args = parser.parse_args()
    if args.sides:
        for name in args.sides:
            measured_rate(SIDES[name], args.seconds, name)
        return 0
    return report(measured(image_rows(args.seconds), args.only), "images on a GPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
