"""What other libraries call values, worlds, commands, flags, and names in Python, with what to write here instead, and
what answers from these tables. Names that are only similar to one of them are answered too. Options have a table of
their own, `foreign_options`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rookery.errors import OptionTypeError
from rookery.foreign_options import by_name

Function = TypeVar("Function", bound=Callable[..., Any])

# --- values -----------------------------------------------------------------------------------------------------------


# By key: what is closest to them here.
_PPO, _DQN, _TD3, _SAC, _XQC = (f'rookery\'s is "{name}"' for name in ("ppo", "dqn", "td3", "sac", "xqc"))
VALUES = {
    "learner": by_name(
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
    "backend": by_name(
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
WORLDS = by_name(
    {
        "Atari games have the names of ale-py, such as ALE/Pong-v5": (
            "ale/ pong breakout spaceinvaders qbert seaquest beamrider enduro mspacman montezuma assault asteroids "
            "freeway"
        ),
        f"that is a policy, and {_NETS_FOLLOW}": "mlppolicy cnnpolicy multiinputpolicy mlplstmpolicy",
        'it is in another package: `pip install minigrid`, then "minigrid:MiniGrid-Empty-5x5-v0"': "minigrid- babyai-",
        "it is in another package: give my_file.py:make_env, a function that makes it": (
            "procgen dm_control/ dmc bsuite/ metaworld/ meta-world/ isaac super-mario supermario sumo nethack nle "
            "minihack crafter vizdoom minedojo"
        ),
        "it is in another package: `pip install gymnasium-robotics`, then such as gymnasium_robotics:FetchReach-v4": (
            "fetchreach fetchpush fetchslide fetchpickandplace handmanipulate handreach adroithand antmaze pointmaze "
            "frankakitchen"
        ),
        "a game of PettingZoo is given as my_file.py:make_env, a function that returns its parallel env": (
            "pettingzoo connect_four tictactoe knights_archers pistonball simple_spread multiwalker waterworld"
        ),
        "that is an address: download a model, then `rookery import-sb3 model.zip`": "http: https: hf: huggingface",
    }
)


def world_answer(world: str, near: Iterable[str] = ()) -> str | None:
    """What to write instead of a world that is not registered here; None for others, and where one of the nearest ids
    is of the same game, in another version."""
    start = next((start for start in WORLDS if world.lower().startswith(start)), None)
    if start is None:
        return None
    same = "-v" in world and any(start in name.lower() for name in near)
    return None if same and "ALE/" not in WORLDS[start] else WORLDS[start]  # other ids of Atari's games are old ones


# --- the shell --------------------------------------------------------------------------------------------------------

# What commands are called elsewhere, where the names are not similar.
COMMANDS = by_name(
    {
        "train": "learn fit run demo example quickstart",
        "resume": "continue restart",
        "eval": "test predict load score",
        "watch": "enjoy render record video visualize visualise rollout simulate",
        "runs": "list ls status show logs history",
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
        "`rookery --version` shows it": "version",
        "`rookery runs --delete RUN` deletes a run": "delete rm remove clean prune",
        "Ctrl-C in its terminal saves and ends a run, and `rookery resume RUN` continues it": "stop kill pause cancel",
        "`rookery train --help-config` prints a config file with every key": "config init new",
        "an agent card for Hugging Face is written by `rookery export RUN --card`": "push upload publish share",
        "download the model, then `rookery import-sb3 model.zip`": "pull download load_from_hub",
    }
)
# Flags that are not keys: what to write, of which a command gets the first that it has all flags of.
FLAGS = {
    "use --version": "v V",
    "use --world WORLD": "env env_id environment env_name eval_env",
    "the world comes first, without a flag: rookery train CartPole-v1; a run too: rookery eval latest": (
        "env env_id world environment env_name task gym_id"
    ),
    "a config file is given as the world: rookery train my_run.toml": "conf config config_file cfg",
    "use --steps 100_000": "n max_steps frames",
    "use --episodes 20": "n n_eval_episodes n_games eval_episodes",
    "evaluations take deterministic actions: omit it, or use --stochastic": "deterministic",
    "use --set KEY=VALUE, once for each": "params hyperparams hyperparameters env_kwargs policy_kwargs",
    "use --n-trials 50": "num_samples max_trials n_iter budget",
    "use --jobs 4": "max_concurrent",
    "what varies is a key of the configuration: --set 'search.space.learning_rate=[1e-3,1e-4]'": "space search_space",
    "use `rookery search WORLD`": "optimize optimize_hyperparameters n_jobs n_trials",
    "every run writes TensorBoard files into its folder, which --runs-dir moves: omit it": (
        "tensorboard_log tensorboard tb"
    ),
    "use --out FILE": "o output save save_path f file output_file video_path video_folder",
    "use --output FILE": "o out save save_path f file",
    "use --html FILE": "o out output save pdf f file",
    "use --runs-dir": "folder logdir log_folder f train_dir log_dir o out output",
    "use --onnx FILE, --standalone FILE or --sb3 FILE": "format o out output",
    "use --json": "format",
    "use --metric NAME": "y ylabel key",
    "use --from RUN": "trained_agent i load checkpoint load_checkpoint model_path pretrained",
    "`rookery resume RUN` continues a run": "resume continue resume_from",
    "every run gets a folder of its own, and none is overwritten: omit it": "overwrite force exist_ok",
    "the run's folder has everything: omit it, or use rookery export RUN": "save",
    "use --set checkpoints.every=50_000": "save_every save_interval checkpoint_every",
    "use --device cpu": "cpu no_cuda",
    "use --on ray": "ray distributed cluster",
    "use --num-episodes 500": "max_episodes",
    "use `rookery eval RUN`, during training or after it": "test eval eval_only evaluate play",
    "use --dashboard": "port ui web",
    "use --quiet to print less": "v verbose verbosity silent q log_level debug",
    "rookery has no such flag; `rookery check ENV` tests an env without training": "dry_run",
}


def flag_answer(name: str, known: Iterable[str]) -> str:
    """What to write instead of a flag, for a command that has the `known` ones; "" for others.

    >>> flag_answer("n", ["--steps"]), flag_answer("n", ["--episodes"]), flag_answer("n", [])
    ('use --steps 100_000', 'use --episodes 20', '')
    """
    for text, names in FLAGS.items():
        here = re.findall(r"--[a-z][a-z-]*", re.sub(r"`[^`]*`", "", text))
        if name in names.split() and {*here} <= {*known}:
            return text
    return ""


# --- Python -----------------------------------------------------------------------------------------------------------

_TRAIN = 'rookery.train(env, learner="ppo", steps=100_000) trains, evaluates and saves'
_NORMALISE = (
    "rookery.train(env, normalise_observations=True, normalise_rewards=True) does it, and saves it in the agent"
)
_SEED = "seeds are given when envs begin: envs.reset(seed=1)"
PYTHON = by_name(
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
            "BaseAlgorithm CrossQ ARS HerReplayBuffer Policy"
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
            "get_actions step_policy step sample"
        ),
        "an agent has no env: it acts on the observations of any that has its spaces": "get_env set_env env",
        'rookery.record(agent_or_run, "video.mp4") records one': "VecVideoRecorder RecordVideo record_video video",
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
        'metrics are in result.path / "metrics.jsonl"': "logger history rewards metrics losses",
        "use agent.steps": "num_timesteps",
        "the networks are agent.policy, a torch.nn.Module": "state_dict parameters q_net actor get_parameters",
        "all envs have the same: use envs.single_observation_space": "observation_spaces",
        "all envs have the same: use envs.single_action_space": "action_spaces action_dim action_shape",
        'agent.export("agent.onnx") writes one': "to_onnx onnx",
        "the agent is result.agent": "model get_best_result best_checkpoint",
        "rookery.search(env, n_trials=50) searches with Optuna, on all cores": "optuna create_study",
        'rookery.train(env, cluster={"kind": "ray"}) uses a Ray cluster': "ray",
        'the learner has its own: size and length are options, as in sac={"buffer_size": 100_000}': (
            "ReplayBuffer RolloutBuffer PrioritizedReplayBuffer"
        ),
        'rookery.export(agent_or_run, "card.md") writes an agent card; the folder of agent.save() can be uploaded': (
            "push_to_hub package_to_hub upload"
        ),
        'download the model, then rookery.import_sb3("model.zip")': "load_from_hub from_pretrained",
        "rookery.train(env, seed=1) and envs.reset(seed=1) take seeds": "set_seed seed_everything manual_seed",
        'the device is an argument: rookery.train(env, device="cpu"), rookery.load(run, device="cuda")': "device to",
        "use rookery.KernelWorld": "KernelEnv JaxEnv World",
        "use result.mean_reward, result.evaluation or result.best_evaluation": (
            "best_reward mean_rewards best_mean_reward score"
        ),
        "rookery.plot(result) draws its curves": "plot plot_results",
        "the agent does it: result.agent.predict(observation)": "predict",
        "the agent does it: result.agent.act(observation)": "act",
        'the agent does it: result.agent.save("my_agent"), and the run is in result.path': "save",
    }
)
# Keywords of `make_vec`.
MAKE_VEC = by_name(
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
OF_AGENTS = by_name(
    {
        "use episodes=20": "n_eval_episodes num_episodes eval_episodes n_episodes n_games runs",
        "the best agent is taken; best=False takes the last": "last best_model load_best",
        'use device="cuda"': "map_location",
        "episodes are played side by side already: omit it": "num_envs n_envs workers",
        "an agent needs no env here; world= names another than the one that it was trained on": "env eval_env vec_env",
        'rookery.record(agent, "video.mp4") shows it': "render render_mode",
        "give it as the first argument": "model policy path filename run_name load_path",
        "the normalisation is in the agent: omit it": "vec_normalize normalize_path",
        "omit it": "custom_objects print_system_info return_episode_rewards warn verbose callback",
    }
)
# Keywords of functions that write a video or draw a plot.
OF_FILES = by_name(
    {
        'use out="FILE"': "path filename save save_path output output_file video_folder video_path name_prefix savefig",
        'use metric="eval/return"': "y metrics ylabel key",
        'use x="time"': "xlabel x_axis",
        "a mean over seeds is a line with its interval, and is not smoothed again: omit it": "smooth smoothing window",
    }
)
# Endings of files that are not runs.
FILES = {
    ".zip": "a model of Stable-Baselines3 is imported first: rookery import-sb3 {file} --output my_agent",
    ".onnx": "onnxruntime runs an exported agent",
    **dict.fromkeys((".mp4", ".gif", ".webp"), "a video is written with rookery watch RUN --out {file}"),
    ".html": "a page is written with rookery report RUN --html {file}",
    **dict.fromkeys((".png", ".svg", ".pdf"), "a plot is written with rookery plot RUN --output {file}"),
    **dict.fromkeys((".json", ".jsonl"), "name the folder that it is in"),
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
    return f"{start}; {text or 'dir() lists its names'}"


def explains_keywords(answers: Mapping[str, str], otherwise: str = "") -> Callable[[Function], Function]:
    """A decorator: keywords that a function does not have are answered by a sentence."""

    def decorate(function: Function) -> Function:
        parameters = inspect.signature(function).parameters.values()
        known = [one.name for one in parameters]
        places = sum(one.kind is not one.KEYWORD_ONLY for one in parameters)
        many = any(one.kind is one.VAR_POSITIONAL for one in parameters)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > places and not many:
                first, more = ", ".join(known[:places]), f", as in {known[places]}=..." if known[places:] else ""
                raise OptionTypeError(f"{function.__name__}({first}) takes all else by name{more}")
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1, 0.75)
                    text = answers.get(name) or (f"did you mean {near[0]!r}?" if near else answer(name, answers))
                    raise OptionTypeError(f"{function.__name__}() has no argument {name!r}; {text or otherwise}")
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
