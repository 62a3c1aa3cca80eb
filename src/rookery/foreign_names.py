"""What other libraries call values, worlds, commands, flags, and names in Python, with what to write here instead, and
what answers from these tables. Names that are only similar to one of them are answered too. Options have a table of
their own, `foreign_options`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rookery.errors import OptionTypeError

Function = TypeVar("Function", bound=Callable[..., Any])

# --- values -----------------------------------------------------------------------------------------------------------


def _by_name(names_of: Mapping[str, str]) -> dict[str, str]:
    """From names by sentence, separated by spaces, to the sentence by name."""
    return {name: text for text, names in names_of.items() for name in names.split()}


# By key: what is closest to them here.
_PPO, _DQN, _TD3, _SAC, _XQC = (f'rookery\'s is "{name}"' for name in ("ppo", "dqn", "td3", "sac", "xqc"))
VALUES = {
    "learner": _by_name(
        {
            f"{_PPO}: with `ppo.epochs` = 1 and `ppo.minibatches` = 1 it is A2C": "a2c",
            _PPO: "a3c appo impala trpo reinforce pg vpg ppg",
            f"{_PPO}, with `ppo.recurrent` = 256": "ppo_lstm recurrentppo recurrent_ppo",
            f'{_PPO}, which takes masks from info["action_mask"]': "maskableppo maskable_ppo",
            f"{_DQN}, with double, dueling, n-step and prioritised replay": (
                "rainbow ddqn dddqn c51 qrdqn apex double_dqn"
            ),
            f"{_TD3}, its successor": "ddpg apex_ddpg",
            f"{_TD3}, with `td3.redq` = true": "redq droq",
            _SAC: "tqc",
            f"{_XQC}, its successor": "crossq simba simbav2 bro",
        }
    ),
    "device": {"gpu": 'use "cuda"', "rocm": 'use "cuda"', "tpu": 'use "cpu"'},
    "backend": _by_name(
        {
            'use "serial"': "dummy dummyvecenv sync syncvectorenv",
            'use "process"': "async subproc subprocvecenv asyncvectorenv multiprocessing processes",
            'use "thread"': "threads threading",
            'use "cuda"': "gpu",
            'use `cluster.kind` = "ray"': "ray",
        }
    ),
}
# Functions (id of another library's env) -> (id of the world here that stands for it, its options), or None. Worlds add
# theirs, as the engine knows none of them.
STAND_INS: set[Callable[[str], tuple[str, dict[str, Any]] | None]] = set()
# Beginnings of worlds that are not registered here, in small letters.
_NETS_FOLLOW = 'networks follow from the spaces: rookery.train(env, learner="ppo")'
WORLDS = _by_name(
    {
        "Atari games have the names of ale-py, such as ALE/Pong-v5": (
            "ale/ pong breakout spaceinvaders qbert seaquest beamrider enduro mspacman montezuma assault asteroids "
            "freeway"
        ),
        f"that is a policy, and {_NETS_FOLLOW}": "mlppolicy cnnpolicy multiinputpolicy mlplstmpolicy",
        'it is in another package: `pip install minigrid`, then "minigrid:MiniGrid-Empty-5x5-v0"': "minigrid- babyai-",
        "it is in another package: give my_file.py:make_env, a function that makes it": (
            "procgen dm_control/ dmc bsuite/ metaworld/ meta-world/"
        ),
    }
)

# --- the shell --------------------------------------------------------------------------------------------------------

# What commands are called elsewhere, where the names are not similar.
COMMANDS = _by_name(
    {
        "train": "learn fit run",
        "resume": "continue restart",
        "eval": "test predict load",
        "watch": "enjoy render record video visualize visualise rollout",
        "runs": "list ls",
        "search": "optimize optimise sweep hpo",
        "study": "trials",
        "dashboard": "ui tensorboard wandb",
        "bench": "benchmark",
        "compare": "diff",
        "doctor": "info env",
        "paper": "trade",
        "export": "save onnx",
        "import-sb3": "import",
        "`rookery train` without a world lists the worlds": "worlds envs environments",
    }
)
# Flags that are not keys.
FLAGS = _by_name(
    {
        "the world comes first, without a flag: rookery train CartPole-v1; a run too: rookery eval latest": (
            "env env_id world environment env_name task gym_id"
        ),
        "a config file is given as the world: rookery train my_run.toml": "conf config config_file cfg",
        "use --steps 100_000": "n",
        "use --set KEY=VALUE, once for each": "params hyperparams hyperparameters env_kwargs policy_kwargs",
        "use `rookery search WORLD`": "optimize optimize_hyperparameters n_jobs n_trials",
        "use --set monitor.tensorboard=true; the files are in the run's folder": "tensorboard_log tensorboard",
        "use --runs-dir": "folder logdir log_folder f train_dir log_dir",
        "use --onnx FILE, --standalone FILE or --sb3 FILE": "format",
        "use --from RUN": "trained_agent i load checkpoint load_checkpoint model_path",
        "the run's folder has everything: omit it, or use rookery export RUN": "save",
        "use --quiet to print less": "v verbose verbosity",
    }
)

# --- Python -----------------------------------------------------------------------------------------------------------

_TRAIN = 'rookery.train(env, learner="ppo", steps=100_000) trains, evaluates and saves'
_NORMALISE = (
    "rookery.train(env, normalise_observations=True, normalise_rewards=True) does it, and saves it in the agent"
)
_SEED = "seeds are given when envs begin: envs.reset(seed=1)"
PYTHON = _by_name(
    {
        "it is in gymnasium: import gymnasium as gym": "make gym gymnasium Env spaces register Wrapper Box Discrete",
        "rookery.make_vec(env, 8) makes a vector env, and rookery.train(env, num_envs=8) its own": (
            "make_vec_env make_atari_env DummyVecEnv SubprocVecEnv VecEnv vec_env vector AsyncVectorEnv SyncVectorEnv "
            "VecMonitor ParallelEnv vectorize envs wrap_env make_env VecFrameStack"
        ),
        _NORMALISE: "VecNormalize NormalizeObservation NormalizeReward RunningMeanStd get_vec_normalize_env",
        "it is part of every run: rookery.train(env, evaluation={...}, checkpoints={...}); derive your own from "
        "rookery.Callback": (
            "EvalCallback CheckpointCallback Monitor StopTrainingOnRewardThreshold BaseCallback ProgressBarCallback "
            "CallbackList RecordEpisodeStatistics WandbCallback StopTrainingOnNoModelImprovement"
        ),
        f"rookery has PPO, SAC, DQN, TD3 and PQN: {_TRAIN}": (
            "A2C DDPG TRPO TQC QRDQN APPO IMPALA RecurrentPPO MaskablePPO HER PPOConfig SACConfig DQNConfig Algorithm "
            "BaseAlgorithm CrossQ ARS HerReplayBuffer"
        ),
        _TRAIN: "train learn fit train_model run run_rl Trainer Runner Tuner init utils build algorithms",
        "rookery.load(run_or_folder) loads an agent": (
            "load load_model load_agent restore from_checkpoint load_from_checkpoint set_parameters"
        ),
        'noise is an option: noise="pink" is correlated over steps, td3={"exploration_noise": 0.1} sets its size': (
            "NormalActionNoise OrnsteinUhlenbeckActionNoise ActionNoise"
        ),
        "use envs.call(name, *args), envs.get_attr(name) or envs.set_attr(name, values)": "env_method call_method",
        "rookery.evaluate(agent_or_run, episodes=20) returns mean and interval": "evaluate_policy evaluate eval test",
        "agent.act(observation, deterministic=True) returns the action": (
            "get_action compute_single_action select_action compute_actions choose_action sample_action forward "
            "get_actions step_policy"
        ),
        "an agent has no env: it acts on the observations of any that has its spaces": "get_env set_env env",
        'rookery.record(agent_or_run, "video.mp4") records one': "VecVideoRecorder RecordVideo record_video",
        "rookery.search(env, n_trials=50) searches for settings": "optimize hyperparameter_search",
        _NETS_FOLLOW: "MlpPolicy CnnPolicy MultiInputPolicy ActorCriticPolicy",
        'derive your encoder from torch.nn.Module, with an attribute `features_dim`: ppo={"network": MyEncoder}': (
            "NatureCNN BaseFeaturesExtractor CombinedExtractor FlattenExtractor"
        ),
        _SEED: "seed set_random_seed",
        'make them with env_kwargs={"render_mode": "rgb_array"}, and use envs.render()': "get_images",
        "use envs.num_envs": "num_env n_envs",
        "rookery.resume(run) continues with the replay buffer, which checkpoints contain": (
            "save_replay_buffer load_replay_buffer"
        ),
        'metrics are in result.path / "metrics.jsonl"': "logger history rewards",
        "use agent.steps": "num_timesteps",
        "the networks are agent.policy, a torch.nn.Module": "state_dict parameters q_net actor get_parameters",
        "all envs have the same: use envs.single_observation_space": "observation_spaces",
        "all envs have the same: use envs.single_action_space": "action_spaces",
        'agent.export("agent.onnx") writes one': "to_onnx onnx",
        "the agent is result.agent": "model",
        "the agent does it: result.agent.predict(observation)": "predict",
        "the agent does it: result.agent.act(observation)": "act",
        'the agent does it: result.agent.save("my_agent"), and the run is in result.path': "save",
    }
)
# Keywords of `make_vec`.
MAKE_VEC = _by_name(
    {
        'use backend="process" or backend="serial"': (
            "vectorization_mode asynchronous vec_env_cls vec_env_type parallel"
        ),
        "it is an option of the env: env_kwargs={...}": (
            "render_mode max_episode_steps continuous frameskip is_slippery"
        ),
        _SEED: "seed start_index",
        "use wrappers=[MyWrapper]": "wrapper_class wrapper_kwargs env_wrapper",
        "its keys are arguments of make_vec": "vector_kwargs vec_env_kwargs",
        'use start_method="spawn"': "context",
        "use workers=2": "num_workers num_threads",
        "use copy=False": "zero_copy",
        "episodes are counted: envs.finished_episodes()": "monitor_dir",
        "the first argument is the env": "env env_id env_type id",
    }
)
# Keywords of functions that take a run or an agent.
OF_AGENTS = _by_name(
    {
        "use episodes=20": "n_eval_episodes num_episodes eval_episodes n_episodes",
        "an agent needs no env here; world= names another than the one that it was trained on": "env eval_env vec_env",
        'rookery.record(agent, "video.mp4") shows it': "render render_mode",
        "give it as the first argument": "model policy path filename run_name load_path",
        "the normalisation is in the agent: omit it": "vec_normalize normalize_path",
        "omit it": "custom_objects print_system_info return_episode_rewards warn verbose callback",
    }
)
# Endings of files that are not runs.
FILES = {
    ".zip": "a model of Stable-Baselines3 is imported first: rookery import-sb3 {file} --output my_agent",
    ".onnx": "onnxruntime runs an exported agent",
    **dict.fromkeys((".pth", ".pt", ".pkl"), "rookery loads its own runs and agents only"),
}


# --- answers ----------------------------------------------------------------------------------------------------------


def answer(name: str, answers: Mapping[str, str], cutoff: float = 0.85) -> str | None:
    """What to write instead of a name that is in a table, in large or small letters, or nearly; None for others."""
    lower = {key.lower().replace("-", "_"): text for key, text in answers.items()}
    wrong = name.lower().replace("-", "_")
    near = [wrong] if wrong in lower else difflib.get_close_matches(wrong, lower, 1, cutoff)
    return lower[near[0]] if near else None


def missing(owner: str, name: str, known: Iterable[str]) -> str:
    """The message of an AttributeError: what to write instead of a name that an object does not have.

    >>> missing("an Agent", "learn", ["act"]).partition(";")[0]
    "an Agent has no 'learn'"
    >>> missing("an Agent", "acts", ["act"])
    "an Agent has no 'acts'; did you mean 'act'?"
    """
    start = f"{owner} has no {name!r}"
    if name.startswith("_"):
        return start
    if name in PYTHON:
        return f"{start}; {PYTHON[name]}"
    near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], 1, 0.7)
    if near:
        return f"{start}; did you mean {near[0]!r}?"
    text = answer(name, PYTHON)
    return f"{start}; {text}" if text else start


def explains_keywords(answers: Mapping[str, str], otherwise: str = "") -> Callable[[Function], Function]:
    """A decorator: keywords that a function does not have are answered by a sentence."""

    def decorate(function: Function) -> Function:
        known = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1, 0.75)
                    text = answers.get(name) or (f"did you mean {near[0]!r}?" if near else answer(name, answers))
                    raise OptionTypeError(f"{function.__name__}() has no argument {name!r}; {text or otherwise}")
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
