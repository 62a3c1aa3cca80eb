"""rookery: many environments at once, as fast as the machine allows.

>>> import rookery
>>> envs = rookery.make_vec("CartPole-v1", num_envs=4, backend="serial")
>>> observations, infos = envs.reset(seed=7)
>>> observations.shape
(4, 4)
>>> envs.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rookery.gymnasium_hook import register_with_gymnasium
from rookery.lazy import lazy_names
from rookery.version import __version__ as __version__

if TYPE_CHECKING:
    from rookery import (
        config,
        data,
        errors,
        kernel,
        learners,
        markets,
        performance,
        pettingzoo,
        sb3,
        standalone,
        studies,
        testing,
        worlds,
    )
    from rookery.config import RunConfig
    from rookery.config.inputs import convert
    from rookery.deploy.paper.paper import paper
    from rookery.deploy.promotion import deploy
    from rookery.deploy.schedule import schedule
    from rookery.deploy.serving.server import serve
    from rookery.engine.engine import Engine
    from rookery.engine.make_vec import get_recommended_n_envs, make_vec
    from rookery.kernel.tables import Table
    from rookery.kernel.world import KernelWorld
    from rookery.learners.agent import Agent
    from rookery.learners.algorithms.dqn import DQN
    from rookery.learners.algorithms.ppo import PPO
    from rookery.learners.algorithms.pqn import PQN
    from rookery.learners.algorithms.sac import SAC
    from rookery.learners.algorithms.td3 import TD3
    from rookery.learners.algorithms.xqc import XQC
    from rookery.studies.report.study import Study, list_studies, study
    from rookery.studies.search_study import search
    from rookery.tools.audit import audit
    from rookery.tools.bench import bench
    from rookery.tools.doctor import doctor
    from rookery.tools.profile import profile
    from rookery.tools.tune import tune
    from rookery.training.backtest.backtest import backtest
    from rookery.training.evaluation.evaluate import evaluate, evaluate_games
    from rookery.training.evaluation.results import EvaluationResult, GamesResult
    from rookery.training.export.export import export
    from rookery.training.export.minari_dataset import clone, write_dataset
    from rookery.training.league.shown_league import LeagueResult, league
    from rookery.training.rewind.blame import blame
    from rookery.training.rewind.diff import diff
    from rookery.training.rewind.fork import fork
    from rookery.training.rewind.fork_many import fork_many
    from rookery.training.rewind.rewind import rewind
    from rookery.training.run.callbacks import Callback, Result
    from rookery.training.run.train import resume, train
    from rookery.training.sb3_models.import_sb3 import import_sb3
    from rookery.training.seeds.train_seeds import train_seeds
    from rookery.training.selftest import selftest
    from rookery.training.show.comparison import ComparisonResult, compare, plot
    from rookery.training.show.play import play
    from rookery.training.show.watch import record, watch
    from rookery.training.storage.load_agent import load
    from rookery.training.storage.runs_table import delete_runs, runs
    from rookery.training.walk_forward import walk_forward
    from rookery.web.dashboard_server import dashboard
    from rookery.web.report import report
    from rookery.worlds.mujoco.mujoco_world import MujocoWorld

__all__ = [
    "DQN",
    "PPO",
    "PQN",
    "SAC",
    "TD3",
    "XQC",
    "Agent",
    "Callback",
    "ComparisonResult",
    "Engine",
    "EvaluationResult",
    "GamesResult",
    "KernelWorld",
    "LeagueResult",
    "MujocoWorld",
    "Result",
    "RunConfig",
    "Study",
    "Table",
    "audit",
    "backtest",
    "bench",
    "blame",
    "clone",
    "compare",
    "config",
    "convert",
    "dashboard",
    "data",
    "delete_runs",
    "deploy",
    "diff",
    "doctor",
    "errors",
    "evaluate",
    "evaluate_games",
    "export",
    "fork",
    "fork_many",
    "get_recommended_n_envs",
    "import_sb3",
    "kernel",
    "league",
    "learners",
    "list_studies",
    "load",
    "make_vec",
    "markets",
    "paper",
    "performance",
    "pettingzoo",
    "play",
    "plot",
    "profile",
    "record",
    "report",
    "resume",
    "rewind",
    "runs",
    "sb3",
    "schedule",
    "search",
    "selftest",
    "serve",
    "standalone",
    "studies",
    "study",
    "testing",
    "train",
    "train_seeds",
    "tune",
    "walk_forward",
    "watch",
    "worlds",
    "write_dataset",
]

register_with_gymnasium()  # so that gymnasium.make("rookery/CartPole-v1") works from now on


def _check(module: str) -> None:
    if module.startswith(("rookery.training", "rookery.learners", "rookery.studies", "rookery.deploy")):
        import_module("rookery.training").check_installed()


__getattr__, __dir__ = lazy_names(__name__, _check, modules=("deploy",))
