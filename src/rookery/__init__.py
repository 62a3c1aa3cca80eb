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
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rookery.gymnasium_hook import register_with_gymnasium
from rookery.lazy import lazy_names
from rookery.version import __version__ as __version__

if TYPE_CHECKING:
    from rookery import (
        config as config,
        data as data,
        errors as errors,
        kernel as kernel,
        learners as learners,
        markets as markets,
        performance as performance,
        pettingzoo as pettingzoo,
        sb3 as sb3,
        standalone as standalone,
        studies as studies,
        testing as testing,
        worlds as worlds,
    )
    from rookery.config import RunConfig as RunConfig
    from rookery.config.inputs import convert as convert
    from rookery.deploy.paper.paper import paper as paper
    from rookery.deploy.promotion import deploy as deploy
    from rookery.deploy.schedule import schedule as schedule
    from rookery.deploy.serving.server import serve as serve
    from rookery.engine.engine import Engine as Engine
    from rookery.engine.make_vec import get_recommended_n_envs as get_recommended_n_envs, make_vec as make_vec
    from rookery.kernel.tables import Table as Table
    from rookery.kernel.world import KernelWorld as KernelWorld
    from rookery.learners.agent import Agent as Agent
    from rookery.learners.algorithms.dqn import DQN as DQN
    from rookery.learners.algorithms.ppo import PPO as PPO
    from rookery.learners.algorithms.pqn import PQN as PQN
    from rookery.learners.algorithms.sac import SAC as SAC
    from rookery.learners.algorithms.td3 import TD3 as TD3
    from rookery.learners.algorithms.xqc import XQC as XQC
    from rookery.studies.report.study import Study as Study, list_studies as list_studies, study as study
    from rookery.studies.search_study import search as search
    from rookery.tools.audit import audit as audit
    from rookery.tools.bench import bench as bench
    from rookery.tools.doctor import doctor as doctor
    from rookery.tools.profile import profile as profile
    from rookery.tools.tune import tune as tune
    from rookery.training.backtest.backtest import backtest as backtest
    from rookery.training.evaluation.evaluate import evaluate as evaluate, evaluate_games as evaluate_games
    from rookery.training.evaluation.results import EvaluationResult as EvaluationResult, GamesResult as GamesResult
    from rookery.training.export.export import export as export
    from rookery.training.export.minari_dataset import clone as clone, write_dataset as write_dataset
    from rookery.training.league.shown_league import LeagueResult as LeagueResult, league as league
    from rookery.training.rewind.blame import blame as blame
    from rookery.training.rewind.diff import diff as diff
    from rookery.training.rewind.fork import fork as fork
    from rookery.training.rewind.fork_many import fork_many as fork_many
    from rookery.training.rewind.rewind import rewind as rewind
    from rookery.training.run.callbacks import Callback as Callback, Result as Result
    from rookery.training.run.train import resume as resume, train as train
    from rookery.training.sb3_models.import_sb3 import import_sb3 as import_sb3
    from rookery.training.seeds.train_seeds import train_seeds as train_seeds
    from rookery.training.selftest import selftest as selftest
    from rookery.training.show.comparison import ComparisonResult as ComparisonResult, compare as compare, plot as plot
    from rookery.training.show.play import play as play
    from rookery.training.show.watch import record as record, watch as watch
    from rookery.training.storage.load_agent import load as load
    from rookery.training.storage.runs_table import delete_runs as delete_runs, runs as runs
    from rookery.training.walk_forward import walk_forward as walk_forward
    from rookery.web.dashboard_server import dashboard as dashboard
    from rookery.web.report import report as report
    from rookery.worlds.mujoco.mujoco_world import MujocoWorld as MujocoWorld

register_with_gymnasium()  # so that gymnasium.make("rookery/CartPole-v1") works from now on


def _check(module: str) -> None:
    if module.startswith(("rookery.training", "rookery.learners", "rookery.studies", "rookery.deploy")):
        import_module("rookery.training").check_installed()


__getattr__, __dir__, __all__ = lazy_names(__name__, _check, modules=("deploy",))
if find_spec("stable_baselines3") is None:
    __all__.remove("sb3")  # or `from rookery import *` would need it
