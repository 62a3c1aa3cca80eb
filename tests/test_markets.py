"""`rookery.markets`: envs by symbols and folder, and a trainer over `rookery.train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import rookery
from rookery import markets
from rookery.cli.main import main
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.engine.machine import usable_cores
from rookery.errors import OptionError, RookeryError, WorldError
from training.runs import QUIET

SYMBOLS = ["EURUSD", "GBPUSD", "USDJPY", "USDCHF"]
# As an older trainer documents its use; only the name of the import is another one.
USAGE = """
from pathlib import Path
from rookery.markets import TrainerAgent

# Create trainer
config = {
    'algorithm': 'DQN',
    'environment': {
        'observation_feature_cols': ['rsi_14', 'ema_10', 'ema_20'],
        'initial_balance': 100000,
        'action_type': 'discrete'
    },
    'training': {
        'total_timesteps': 500000  # Increased for vectorized training
    }
}

trainer = TrainerAgent(config)

# Create vectorized environment (3-4x faster!)
symbols = ['EURUSD', 'GBPUSD', 'USDJPY', 'USDCHF']
vec_env = trainer.create_vectorized_env(
    symbols=symbols,
    data_dir=Path('data/forex'),
    n_envs=None,  # Auto-detect optimal number
    use_shared_memory=False  # Use SubprocVecEnv
)

# Set as training environment
trainer.set_env(vec_env)

# Train with improved throughput
model_path = trainer.train()
"""


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one Parquet file per symbol."""
    folder = tmp_path_factory.mktemp("bars") / "data" / "forex"
    folder.mkdir(parents=True)
    made = synthesise(symbols=SYMBOLS, bars=1_500, timeframe="1h", kind="forex")
    for symbol in SYMBOLS:
        write(made.select([symbol]), folder / f"{symbol}.parquet")
    return folder


def recorded(path: Path) -> dict[str, Any]:
    return json.loads((path / "config.json").read_text())


def steps(envs: Any, count: int = 30) -> list[np.ndarray]:
    """Observations and rewards of some steps, with the same actions."""
    random, found = np.random.default_rng(1), [envs.reset()]
    for _ in range(count):
        observations, rewards, _, _ = envs.step(random.integers(0, 3, envs.num_envs))
        found += [observations, rewards]
    return found


@pytest.mark.usefixtures("plain_python")
def test_envs_take_the_symbols_in_turns(bars: Path) -> None:
    envs = markets.create_vectorized_env(SYMBOLS[:3], bars, n_envs=6)
    envs.reset()
    infos = envs.step(np.zeros(6, np.int64))[3]
    assert sorted(info["symbol"] for info in infos) == [0, 0, 1, 1, 2, 2]
    assert [info["symbol"] for info in infos[:3]] == [info["symbol"] for info in infos[3:]]
    assert {"drawdown", "turnover", "sharpe_ratio", "max_drawdown"} <= infos[0].keys()
    envs.close()


@pytest.mark.usefixtures("plain_python")
def test_shared_memory_or_not_means_the_same_numbers(bars: Path) -> None:
    runs = []
    for shared in (True, False):
        envs = markets.create_vectorized_env(SYMBOLS, bars, 4, use_shared_memory=shared, seed=3)
        runs.append(steps(envs))
        envs.close()
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("make", [markets.create_vectorized_environment, markets.build_vec_env])
def test_other_names(make: Any, bars: Path) -> None:
    envs = make("EURUSD, USDJPY", str(bars), n_envs=2, env_config={"columns": ["rsi_14", "ema_10", "ema_20"]})
    assert envs.observation_space.shape == (10 * 4,)
    envs.close()


@pytest.mark.slow
def test_recommended_numbers(bars: Path) -> None:
    assert markets.get_recommended_n_envs(["A"]) == markets.get_recommended_n_envs(1) == 1
    assert markets.get_recommended_n_envs() == min(usable_cores(), 16)
    assert markets.get_recommended_n_envs(100) == min(usable_cores(), 16)
    assert markets.TrainerAgent({}).get_recommended_n_envs("A,B") == min(usable_cores(), 2)
    envs = markets.create_vectorized_env(SYMBOLS, bars)
    assert envs.num_envs == min(usable_cores(), 4)
    envs.close()


@pytest.mark.slow
def test_stable_baselines_learns_on_them(bars: Path) -> None:
    """In a VecMonitor, which reads the ends of episodes."""
    envs = VecMonitor(markets.create_vectorized_env(SYMBOLS, bars, 4, env_config={"episode_length": 20}))
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=32, n_epochs=1).learn(128)
    assert len(model.ep_info_buffer) == 4 and {info["l"] for info in model.ep_info_buffer} == {20}
    envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [pytest.param(lambda envs: envs, marks=pytest.mark.slow), VecMonitor])
def test_rookery_trains_on_them(wrap: Any, bars: Path, tmp_path: Path) -> None:
    envs = wrap(markets.create_vectorized_env(["EURUSD", "USDJPY"], bars, 4, env_config={"cooldown": 2}))
    small = {"rollout_length": 16, "epochs": 1, "hidden": [8], "threads": 1}
    options = {"steps": 128, "ppo": small, "learner": "ppo", "monitor": QUIET, "evaluation": {"episodes": 1}}
    result = rookery.train(envs, runs_dir=tmp_path, **options)
    config = recorded(result.path)
    assert (config["world"], config["num_envs"], config["backend"]) == ("forex", 4, "kernel")
    given = {"symbols": ["EURUSD", "USDJPY"], "data_dir": str(bars), "cooldown": 2}
    assert config["world_options"] == {**given, "split": "train"}
    assert rookery.resume(result.path, steps=256).total_steps == 256
    envs.close()


@pytest.mark.slow
def test_the_documented_use_runs(bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands, with fewer steps; the path is what `rookery.load` takes."""
    monkeypatch.chdir(bars.parents[1])
    scope: dict[str, Any] = {}
    exec(USAGE.replace("500000", "1_500"), scope)
    path = scope["model_path"]
    assert isinstance(path, Path) and scope["vec_env"].num_envs == min(usable_cores(), 4)
    config = recorded(path)
    assert (config["learner"], config["steps"], config["world"]) == ("dqn", 1_500, "forex")
    assert config["world_options"]["observation_feature_cols"] == ["rsi_14", "ema_10", "ema_20"]
    assert config["world_options"]["data_dir"] == str(bars)
    agent = rookery.load(path)
    observations = scope["vec_env"].reset()
    assert agent.act(observations).shape == (len(observations),)


@pytest.mark.slow
def test_a_trainer_by_its_configuration_alone(bars: Path, tmp_path: Path) -> None:
    """As a dict or the path of a file, with the symbols in it, and options for one call."""
    file = tmp_path / "config.yaml"
    file.write_text(
        f"algorithm: PPO\nenvironment: {{cooldown: 2, data_dir: {bars}, symbols: [EURUSD]}}\n"
        "training: {total_timesteps: 99999, n_envs: 2, n_steps: 16, n_epochs: 1}\n"
    )
    trainer = markets.TrainerAgent(file)
    path = trainer.train(steps=64, runs_dir=tmp_path, monitor=QUIET, evaluation={"episodes": 1})
    assert trainer.result is not None and trainer.result.total_steps == 64 and trainer.result.path == path
    assert recorded(path)["world_options"]["symbols"] == ["EURUSD"]
    envs = trainer.create_vectorized_env()
    assert envs.num_envs == 2 and envs.engine.world.market.symbols == ("EURUSD",)
    envs.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bars: markets.create_vectorized_env(["EURUSD", "XAUUSD"], bars), "XAUUSD"),
        (lambda bars: markets.create_vectorized_env([], bars), "symbols should be"),
        (lambda bars: markets.create_vectorized_env(SYMBOLS, bars / "none"), "none"),
        (lambda bars: markets.create_vectorized_env(SYMBOLS, bars, env_config={"lookbak": 3}), "lookback"),
        (lambda bars: markets.create_vectorized_env(SYMBOLS, bars, env_config={"columns": ["rsj_14"]}), "rsj_14"),
        (lambda bars: markets.TrainerAgent({"algorithm": "A2C", "environment": {}}), "algorithm"),
    ],
)
def test_mistakes(call: Any, message: str, bars: Path) -> None:
    with pytest.raises(RookeryError, match=message):
        call(bars)


def test_what_is_no_env() -> None:
    trainer = markets.TrainerAgent({"algorithm": "PPO"})
    with pytest.raises(WorldError, match="is not a world"):
        trainer.set_env(3)
    with pytest.raises(OptionError, match="symbols should be"):
        trainer.get_recommended_n_envs(0)


def frame(bars: Any) -> Any:
    """The bars of a symbol as users have them: times at which bars begin."""
    columns = {name: bars[name] for name in ("open", "high", "low", "close", "volume")}
    return polars.DataFrame({"time": polars.from_epoch(bars.times - 3600).dt.replace_time_zone("UTC"), **columns})


@pytest.mark.slow
def test_bars_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A frame per symbol is an object of the session: the run ends with a report all the same, and is resumed with it.
    No command is proposed that could not work."""
    made = synthesise(symbols=SYMBOLS[:2], bars=1_500, timeframe="1h", kind="forex")
    data = {bars.symbol: frame(bars) for bars in made.bars}
    options = {"steps": 256, "num_envs": 4, "evaluation": {"episodes": 1}, "monitor": QUIET, "runs_dir": tmp_path}
    small = {"rollout_length": 32, "epochs": 1, "hidden": [8], "threads": 1}
    given = {"data": data, "cooldown": 2}
    result = rookery.train("forex", world_options=given, ppo=small, learner="ppo", **options)
    assert recorded(result.path)["world"] == "object:forex"
    assert recorded(result.path)["world_options"] == {"cooldown": 2, "split": "train"}
    assert (result.path / "report" / "report.json").exists()
    assert "rookery watch" not in capsys.readouterr().out
    envs = rookery.make_vec("rookery/Forex-v0", 4, env_kwargs=given)
    assert rookery.resume(result.path, steps=384, world=envs).total_steps == 384


@pytest.mark.slow
def test_other_bars_for_a_backtest(bars: Path, tmp_path: Path) -> None:
    """Also of a run that names its own by `data_dir`."""
    options = {"steps": 128, "num_envs": 4, "evaluation": {"episodes": 1}, "runs_dir": tmp_path, "learner": "ppo"}
    monitor = {**QUIET, "report": False}
    result = rookery.train("forex", world_options={"data_dir": bars}, monitor=monitor, **options)
    report = rookery.backtest(result.path, data=bars / "EURUSD.parquet")
    assert [row["symbol"] for row in report.summary["by_asset"]] == ["EURUSD"]


@pytest.mark.slow
def test_flags_of_the_command(bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dashes or underscores, lists with commas, and folders that are found again from anywhere."""
    monkeypatch.chdir(bars.parent)
    small = ["--steps", "64", "--n-envs", "2", "--learner", "ppo", "--set", "ppo.rollout_length=16", "--no-panel"]
    quiet = ["--set", "monitor.report=false", "--set", "monitor.plot=false", "--eval-episodes", "1", "--quiet"]
    for number, flag in enumerate(("--data-dir", "--data_dir", "--data")):
        command = [
            "train",
            "forex",
            flag,
            "forex",
            "--symbols",
            "EURUSD,USDJPY",
            "--timeframe",
            "1h",
            "--costs",
            "none",
        ]
        assert main([*command, *small, *quiet, "--runs-dir", str(tmp_path), "--name", f"run{number}"]) == 0
        options = recorded(tmp_path / f"run{number}")["world_options"]
        assert options[flag.strip("-").replace("-", "_")] == str(bars)
        assert (options["symbols"], options["costs"]) == ("EURUSD,USDJPY", "none")
    monkeypatch.chdir(tmp_path)
    assert main(["resume", "run0", "--runs-dir", str(tmp_path), "--steps", "128"]) == 0
