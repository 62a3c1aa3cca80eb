"""What other libraries call things: the one table of the names of Stable-Baselines3, RL Zoo, CleanRL, RLlib, Sample
Factory and Gymnasium, for options, values, commands, flags, and names in Python.

A name with the same meaning is translated, and a line says so. A name without an equivalent raises an error that says
what to write. Names that are only similar to one of these are answered too. Options are understood where options are:
in the section of a learner (`ppo.n_steps`), or without one. The tables in docs/migrating.md are made from this module.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rookery.errors import OptionTypeError

Function = TypeVar("Function", bound=Callable[..., Any])

# --- options ----------------------------------------------------------------------------------------------------------

# Their names of a learner's options, by learner: rookery's option.
_ALL = {
    "lr": "learning_rate",
    "lr_schedule": "learning_rate_schedule",
    "net_arch": "hidden",
    "hidden_sizes": "hidden",
    "hidden_dims": "hidden",
    "fcnet_hiddens": "hidden",
    "encoder_mlp_layers": "hidden",
    "activation_fn": "activation",
    "fcnet_activation": "activation",
    "nonlinearity": "activation",
    "features_extractor_class": "network",
    "features_extractor_kwargs": "network_options",
    "discount": "gamma",
    "discount_factor": "gamma",
    "grad_clip": "max_grad_norm",
    "normalize_observations": "normalise_observations",
    "normalize_observation": "normalise_observations",
    "normalize_obs": "normalise_observations",
    "normalize_input": "normalise_observations",
    "norm_obs": "normalise_observations",
    "normalize_rewards": "normalise_rewards",
    "normalize_reward": "normalise_rewards",
    "normalize_returns": "normalise_rewards",
    "norm_reward": "normalise_rewards",
}
_REPLAY = _ALL | {
    "learning_starts": "start_steps",
    "num_steps_sampled_before_learning_starts": "start_steps",
    "n_steps": "n_step",
    "replay_buffer_size": "buffer_size",
    "polyak": "tau",
}
OPTIONS: dict[str, dict[str, str]] = {
    "ppo": _ALL
    | {
        "n_steps": "rollout_length",
        "num_steps": "rollout_length",
        "rollout": "rollout_length",
        "rollout_fragment_length": "rollout_length",
        "n_epochs": "epochs",
        "num_epochs": "epochs",
        "update_epochs": "epochs",
        "num_sgd_iter": "epochs",
        "num_minibatches": "minibatches",
        "num_batches_per_epoch": "minibatches",
        "minibatch_size": "batch_size",
        "sgd_minibatch_size": "batch_size",
        "lambda_": "gae_lambda",
        "clip_range": "clip",
        "clip_coef": "clip",
        "clip_param": "clip",
        "ppo_clip_ratio": "clip",
        "clip_range_vf": "clip_values",
        "vf_clip_param": "clip_values",
        "ppo_clip_value": "clip_values",
        "ent_coef": "entropy",
        "entropy_coef": "entropy",
        "entropy_coeff": "entropy",
        "exploration_loss_coeff": "entropy",
        "vf_coef": "value_weight",
        "vf_loss_coeff": "value_weight",
        "value_loss_coeff": "value_weight",
        "kl_target": "target_kl",
        "normalize_advantage": "normalise_advantages",
        "norm_adv": "normalise_advantages",
        "anneal_lr": "learning_rate_schedule",
        "log_std_init": "log_std",
        "rnn_size": "recurrent",
        "lstm_cell_size": "recurrent",
        "lstm_hidden_size": "recurrent",
    },
    "sac": _REPLAY | {"ent_coef": "temperature", "alpha": "temperature", "initial_alpha": "temperature_start"},
    "dqn": _REPLAY
    | {
        "exploration_initial_eps": "epsilon_start",
        "initial_epsilon": "epsilon_start",
        "start_e": "epsilon_start",
        "exploration_final_eps": "epsilon_end",
        "final_epsilon": "epsilon_end",
        "end_e": "epsilon_end",
        "epsilon_timesteps": "epsilon_steps",
        "double_q": "double",
    },
    "td3": _REPLAY
    | {
        "target_policy_noise": "policy_noise",
        "target_noise": "policy_noise",
        "target_noise_clip": "noise_clip",
        "policy_frequency": "policy_delay",
    },
}
# Rookery's own names that are known without the learner's section too; many are the same elsewhere.
SAME = (
    "activation", "batch_size", "buffer_size", "critic_hidden", "exploration_noise", "gae_lambda", "gamma",
    "hidden", "max_grad_norm", "network", "network_options", "noise_clip", "normalise_observations",
    "normalise_rewards", "policy_delay", "policy_noise", "target_entropy", "target_kl", "tau",
)  # fmt: skip
# Translated with the help of another key.
COMBINED = ("train_freq", "train_frequency", "gradient_steps", "exploration_fraction")
# Keys of the run.
RUN_KEYS = {
    "algo": "learner",
    "algorithm": "learner",
    "n_timesteps": "steps",
    "timesteps": "steps",
    "num_timesteps": "steps",
    "train_for_env_steps": "steps",
    "max_episode_steps": "episode_length",
    "env_id": "world",
    "env_kwargs": "world_options",
    "env_config": "world_options",
    "exp_name": "name",
    "experiment": "name",
    "train_dir": "runs_dir",
    "log_dir": "runs_dir",
    "n_eval_episodes": "evaluation.episodes",
    "evaluation_duration": "evaluation.episodes",
    "track": "monitor.wandb",
    "with_wandb": "monitor.wandb",
    "capture_video": "monitor.video",
    "save_video": "monitor.video",
}
_NO_SDE = 'rookery has no state-dependent exploration: omit it, or use `sac.noise` = "pink"'
_TARGET = (
    "it counts steps, and rookery counts updates: use `dqn.target_every`, with `dqn.tau` = 1.0 to copy all weights"
)
_ONE_RATE = "actor and critics have one learning rate here: use `learning_rate`"
_OWN_CLASS = "buffers cannot be replaced: omit it; `prioritised` = true gives prioritised replay"
# Names without an equivalent here, with what to do instead.
_WORKERS = (
    "use `num_envs` for the number of envs; worker processes are chosen by themselves, or by `workers`: each steps "
    "several envs"
)
_EVALUATE = "use `evaluation.every`, in steps over all envs"
_NETS = "networks follow from the spaces: use `ppo.hidden` for their layers, or `ppo.network` for your own"
_ROLLOUT = (
    "a batch of PPO is `num_envs` times `ppo.rollout_length` steps: use these, and `ppo.batch_size` for minibatches; "
    "others have `batch_size`"
)
_RECURRENT = "use `ppo.recurrent` = 256, the width of a recurrent core"
_WATCH = "training opens no window: use `rookery watch RUN` while it runs, or `monitor.video` = true"
_VIDEO = "use `monitor.video` = true; `rookery watch RUN --out FILE` records one of a trained agent"
_KEPT = "the best and the last agent are in the run's folder, which `runs_dir` moves: omit it"
_GOAL = "use `evaluation.stop_at` = 200, the mean return of an evaluation that ends the run"
_FIXED = "rookery has no such option: omit it"
_MODEL = 'use `world` and `learner`, as in rookery.train(env, learner="ppo", steps=100_000)'
# Names without an equivalent here, with what to do instead.
ANSWERS = {
    "target_update_interval": _TARGET,
    "target_network_frequency": _TARGET,
    "target_network_update_freq": _TARGET,
    "clip_vloss": "use `ppo.clip_values`, the clip range of value estimates as a number",
    "use_sde": _NO_SDE,
    "sde_sample_freq": _NO_SDE,
    "action_noise": "use `td3.exploration_noise`, the standard deviation as a number, or `td3.noise` = \"pink\"",
    "autotune": 'use `sac.temperature`: "auto" is learned, a number is constant',
    "policy_lr": _ONE_RATE,
    "q_lr": _ONE_RATE,
    "actor_lr": _ONE_RATE,
    "critic_lr": _ONE_RATE,
    "policy": _NETS,
    "policy_kwargs": "should be a dict with `net_arch`, `activation_fn`, `features_extractor_class` or "
    "`features_extractor_kwargs`; or use `ppo.hidden` = [64, 64]",
    "features_extractor": "use `policy_kwargs` = {features_extractor_class}, or `ppo.network`, a class",
    "share_features_extractor": "actor and critic share their encoder: omit it, or use `ppo.network` for your own two",
    "normalize_images": "bytes of images are divided by 255: omit it",
    "ortho_init": "layers have orthogonal weights at the start: omit it",
    "optimizer_class": "the optimizer is Adam: omit it; `learning_rate` is its step size",
    "optimizer_kwargs": "the optimizer is Adam: omit it; `learning_rate` is its step size",
    "model": "use `ppo.hidden` for layers, `ppo.activation`, `ppo.recurrent` and `ppo.network`",
    "use_lstm": _RECURRENT,
    "use_rnn": _RECURRENT,
    "observation_filter": "use `ppo.normalise_observations` = true",
    "replay_buffer_class": _OWN_CLASS,
    "replay_buffer_kwargs": _OWN_CLASS,
    "replay_buffer_config": _OWN_CLASS,
    "rollout_buffer_class": _OWN_CLASS,
    "optimize_memory_usage": "rookery has no such option: omit it, or use a smaller `buffer_size`",
    "stats_window_size": "means are over the last 100 episodes: omit it",
    "tensorboard_log": "use `monitor.tensorboard` = true; the files are in the run's folder, which `runs_dir` moves",
    "tb_log_name": "use `name`, the name of the run",
    "reset_num_timesteps": "rookery.resume(run, steps=...) continues a run: omit it",
    "log_interval": "lines are printed by time: omit it",
    "progress_bar": "use `monitor.panel` = true or false",
    "eval_freq": _EVALUATE,
    "evaluation_interval": _EVALUATE,
    "eval_env": "evaluations make envs of their own: omit it; `evaluation.every` and `evaluation.episodes` set them",
    "save_freq": "use `checkpoints.every`, in steps over all envs",
    "save_every_sec": "use `checkpoints.every`, in steps over all envs",
    "cuda": 'use `device` = "cuda" or "cpu"',
    "num_gpus": 'use `device` = "cuda", and `devices` for several GPUs',
    "use_gpu": 'use `device` = "cuda"',
    "framework": "rookery computes with PyTorch: omit it",
    "torch_deterministic": "the same seed gives the same run here: omit it",
    "save_model": "every run saves its agent: omit it",
    "wandb_project_name": "the project is \"rookery\": use `monitor.wandb` = true alone",
    "wandb_entity": "use `monitor.wandb` = true; its own variables, such as WANDB_ENTITY, say the rest",
    "wandb_project": "the project is \"rookery\": use `monitor.wandb` = true alone",
    "upload_model": "agents are in the run's folder: omit it",
    "hf_entity": "agents are in the run's folder: omit it",
    "vec_env_cls": "use `backend` = \"process\" or \"serial\"",
    "vec_env_kwargs": "use `backend`, `workers` and `start_method`",
    "env_wrapper": "use `wrappers`, a list of classes",
    "wrapper_class": "use `wrappers`, a list of classes",
    "num_workers": _WORKERS,
    "n_workers": _WORKERS,
    "num_rollout_workers": _WORKERS,
    "num_env_runners": _WORKERS,
    "n_procs": _WORKERS,
    "num_envs_per_worker": _WORKERS,
    "num_envs_per_env_runner": _WORKERS,
    "async_rl": "envs step while the learner learns: omit it; `cluster.asynchronous` = true does so on a cluster",
    "serial_mode": 'use `backend` = "serial"',
    "train_for_seconds": "use `steps`",
    "max_time": "use `steps`",
    "stop": "use `steps`, or `evaluation.stop_at` = 200, the return to reach",
    "render": _WATCH,
    "render_mode": _WATCH,
    "video": _VIDEO,
    "record_video": _VIDEO,
    "config": "give its keys themselves, as in rookery.train(world, learning_rate=1e-3)",
    "args": "give the options themselves, as in rookery.train(world, learning_rate=1e-3)",
    "env": _MODEL,
    "env_fn": _MODEL,
    "make_env": _MODEL,
    "vec_env": 'use `backend` = "process" or "serial"',
    "save_path": _KEPT,
    "best_model_save_path": _KEPT,
    "log_path": _KEPT,
    "reward_threshold": _GOAL,
    "stop_reward": _GOAL,
    "target_reward": _GOAL,
    "checkpoint_freq": "use `checkpoints.every`, in steps over all envs",
    "checkpoint_frequency": "use `checkpoints.every`, in steps over all envs",
    "normalize": "use `normalise_observations` = true and `normalise_rewards` = true",
    "num_cpu": _WORKERS,
    "n_cpu": _WORKERS,
    "nproc": _WORKERS,
    "agent": "use `init_from`, a run or a folder that agent.save() wrote",
    "resume_from": "use rookery.resume(run), or `init_from` for a new run that begins with its agent",
    "restore": "use rookery.resume(run), or `init_from` for a new run that begins with its agent",
    "load_checkpoint_kind": "the best agent is loaded; best=False takes the last: omit it",
    "eval_callback": "evaluations are part of every run: use `evaluation.every` and `evaluation.episodes`",
    "callback": "use `callbacks`, a list of `rookery.Callback`; evaluations and checkpoints are part of every run",
    "seed_everything": "use `seed`",
}  # fmt: skip
ANSWERS |= {"train_batch_size": _ROLLOUT, "train_batch_size_per_learner": _ROLLOUT, "monitor_dir": _FIXED}

# --- values -----------------------------------------------------------------------------------------------------------


def _by_name(names_of: Mapping[str, str]) -> dict[str, str]:
    """From names by sentence, separated by spaces, to the sentence by name."""
    return {name: text for text, names in names_of.items() for name in names.split()}


# By key: what is closest to them here.
_PPO, _DQN, _TD3, _SAC = (f'rookery\'s is "{name}"' for name in ("ppo", "dqn", "td3", "sac"))
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
            _SAC: "tqc crossq",
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
# Beginnings of worlds that are not registered here, in small letters.
_NETS_FOLLOW = 'networks follow from the spaces: rookery.train(env, learner="ppo")'
WORLDS = _by_name(
    {
        "Atari games are in another package: `pip install ale-py`, and give my_file.py:make_env, a function that "
        "imports ale_py and makes the env": (
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
        f"rookery has PPO, SAC, DQN and TD3: {_TRAIN}": (
            "A2C DDPG TRPO TQC QRDQN APPO IMPALA RecurrentPPO MaskablePPO HER PPOConfig SACConfig DQNConfig Algorithm "
            "BaseAlgorithm CrossQ ARS HerReplayBuffer"
        ),
        _TRAIN: "learn fit train_model run run_rl Trainer Runner Tuner init utils build algorithms",
        "rookery.load(run_or_folder) loads an agent": (
            "load load_model load_agent restore from_checkpoint load_from_checkpoint set_parameters"
        ),
        'noise is an option: td3={"exploration_noise": 0.1}, or sac={"noise": "pink"}': (
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


def known_names() -> list[tuple[str, str]]:
    """Every name that is translated, with the key that it means, for suggestions. A name may mean several."""
    pairs = [(name, f"{learner}.{option}") for learner in OPTIONS for name, option in OPTIONS[learner].items()]
    return [*pairs, *RUN_KEYS.items()]


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
