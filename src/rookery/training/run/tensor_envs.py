"""The engine and the evaluator of a run on a vector env of another library."""

from __future__ import annotations

from typing import Any

from rookery.engine.tensor_vector_env import TensorVectorEnv
from rookery.training.evaluation.tensor_episodes import TensorEvaluator
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed
from rookery.training.resolve.tensor_world import TensorWorld


def make_tensor_engine(run: ResolvedRun) -> Any:
    """The vector env, as the loop steps it."""
    source = _source(run)
    source.engine = TensorVectorEnv(source.open(run.config), run.config.device, owned=source.make is not None)
    return source.engine


def make_tensor_evaluator(run: ResolvedRun) -> Any:
    """One that has envs of its own, if they can be made."""
    source, options = _source(run), run.config.evaluation

    def open_envs() -> Any:
        if source.make is None:
            return source.engine
        return TensorVectorEnv(source.build(run.config), run.config.device, owned=True)

    seed = evaluation_seed(run.config)
    return TensorEvaluator(open_envs, options.episodes, seed, options.deterministic, shared=source.make is None)


def _source(run: ResolvedRun) -> TensorWorld:
    assert isinstance(run.env_world.source, TensorWorld)
    return run.env_world.source
