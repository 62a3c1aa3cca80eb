"""What other libraries call the options of a learner and of a run: Stable-Baselines3, RL Zoo, CleanRL, RLlib, Sample
Factory, Tianshou and PufferLib.

A name with the same meaning is translated, and a line says so (config/translation.py). A name without an equivalent
raises an error that says what to write. Options are understood where options are: in the section of a learner
(`ppo.n_steps`), or without one. The tables in docs/migrating.md are made from this module.
"""

from __future__ import annotations

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
    "obs_norm": "normalise_observations",
    "discount_rate": "gamma",
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
    "memory_size": "buffer_size",
    "polyak": "tau",
}
_ROLLOUTS = _ALL | {
    "n_steps": "rollout_length",
    "num_steps": "rollout_length",
    "rollout": "rollout_length",
    "horizon": "rollout_length",
    "rollout_fragment_length": "rollout_length",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "update_epochs": "epochs",
    "num_sgd_iter": "epochs",
    "repeat_per_collect": "epochs",
    "k_epochs": "epochs",
    "num_minibatches": "minibatches",
    "num_batches_per_epoch": "minibatches",
    "minibatch_size": "batch_size",
    "sgd_minibatch_size": "batch_size",
    "anneal_lr": "learning_rate_schedule",
}
_EPSILON = {
    "exploration_initial_eps": "epsilon_start",
    "initial_epsilon": "epsilon_start",
    "start_e": "epsilon_start",
    "exploration_final_eps": "epsilon_end",
    "final_epsilon": "epsilon_end",
    "end_e": "epsilon_end",
}
_SAC = _REPLAY | {"ent_coef": "temperature", "alpha": "temperature", "initial_alpha": "temperature_start"}
OPTIONS: dict[str, dict[str, str]] = {
    "ppo": _ROLLOUTS
    | {
        "lambda_": "gae_lambda",
        "clip_range": "clip",
        "clip_coef": "clip",
        "clip_param": "clip",
        "ppo_clip_ratio": "clip",
        "clip_ratio": "clip",
        "eps_clip": "clip",
        "clip_range_vf": "clip_values",
        "vf_clip_param": "clip_values",
        "ppo_clip_value": "clip_values",
        "vf_clip_coef": "clip_values",
        "ent_coef": "entropy",
        "entropy_coef": "entropy",
        "entropy_coeff": "entropy",
        "entropy_coefficient": "entropy",
        "exploration_loss_coeff": "entropy",
        "vf_coef": "value_weight",
        "vf_loss_coeff": "value_weight",
        "value_loss_coeff": "value_weight",
        "kl_target": "target_kl",
        "normalize_advantage": "normalise_advantages",
        "norm_adv": "normalise_advantages",
        "log_std_init": "log_std",
        "rnn_size": "recurrent",
        "lstm_cell_size": "recurrent",
        "lstm_hidden_size": "recurrent",
    },
    "sac": _SAC,
    "dqn": _REPLAY | _EPSILON | {"epsilon_timesteps": "epsilon_steps", "double_q": "double", "double_dqn": "double"},
    "td3": _REPLAY
    | {
        "target_policy_noise": "policy_noise",
        "target_noise": "policy_noise",
        "target_noise_clip": "noise_clip",
        "policy_frequency": "policy_delay",
    },
    "pqn": _ROLLOUTS | _EPSILON | {"lambda_": "q_lambda"},
    "xqc": _SAC | {"policy_frequency": "policy_delay", "num_atoms": "atoms", "n_atoms": "atoms"},
}
# Rookery's own names that are known without the learner's section too; many are the same elsewhere.
SAME = (
    "activation", "batch_size", "buffer_size", "critic_hidden", "exploration_noise", "gae_lambda", "gamma",
    "hidden", "max_grad_norm", "network", "network_options", "noise", "noise_clip", "normalise_observations",
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
    "env_name": "world",
    "env_kwargs": "world_options",
    "env_config": "world_options",
    "env_args": "world_options",
    "exp_name": "name",
    "experiment_name": "name",
    "experiment": "name",
    "train_dir": "runs_dir",
    "output_dir": "runs_dir",
    "logdir": "runs_dir",
    "log_dir": "runs_dir",
    "n_eval_episodes": "evaluation.episodes",
    "evaluation_duration": "evaluation.episodes",
    "track": "monitor.wandb",
    "with_wandb": "monitor.wandb",
    "capture_video": "monitor.video",
    "save_video": "monitor.video",
}
_NO_SDE = (
    'rookery has no state-dependent exploration: omit it, or use `noise` = "pink", exploration that is correlated over '
    "steps"
)
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
_LAYERS = "use `hidden` = [64, 64], the width of each layer"
_STEPS = "use `steps`, counted over all envs"
_SAVE = "use `checkpoints.every`, in steps over all envs"
_LOG = "lines are printed by time: omit it"
_FRAMES = "Atari worlds stack 4 frames by themselves; for others use `wrappers`, such as my_file.py:MyWrapper"
_MODEL = 'use `world` and `learner`, as in rookery.train(env, learner="ppo", steps=100_000)'
_WANDB = "use `monitor.wandb` = true; its own variables, such as WANDB_ENTITY, say the rest"
_SEARCH = "rookery.search(world, n_trials=50, jobs=2) searches for settings"
_BEGIN = "use `init_from`, a run or a folder that agent.save() wrote"
_DATASET = "rookery.clone imitates a dataset of Minari, and `sac.dataset` begins an off-policy run with recorded steps"
_PRECISION = "use `ppo.precision`, and the same for the other learners"
_OWN_NET = "use `ppo.network`, a torch.nn.Module of your own"
_SKIP = "Atari worlds have it as an option in `world_options`; for others use `wrappers`, such as my_file.py:MyWrapper"
# Names without an equivalent here, with what to do instead.
ANSWERS = {
    "target_update_interval": _TARGET,
    "target_update": _TARGET,
    "target_network_frequency": _TARGET,
    "target_network_update_freq": _TARGET,
    "clip_vloss": "use `ppo.clip_values`, the clip range of value estimates as a number",
    "use_sde": _NO_SDE,
    "sde_sample_freq": _NO_SDE,
    "action_noise": "use `td3.exploration_noise`, the standard deviation as a number; for Ornstein-Uhlenbeck noise use "
    '`noise` = "pink", or 2.0 for its spectrum',
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
    "optimizer": "the optimizer is Adam: omit it; `learning_rate` is its step size",
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
    "tensorboard_log": "every run writes TensorBoard files into its folder, which `runs_dir` moves: omit it",
    "tb_log_name": "use `name`, the name of the run",
    "reset_num_timesteps": "rookery.resume(run, steps=...) continues a run: omit it",
    "log_interval": _LOG,
    "print_freq": _LOG,
    "log_freq": _LOG,
    "progress_bar": "use `monitor.panel` = true or false",
    "eval_freq": _EVALUATE,
    "evaluation_interval": _EVALUATE,
    "eval_env": "evaluations make envs of their own: omit it; `evaluation.every` and `evaluation.episodes` set them",
    "save_freq": _SAVE,
    "save_every_sec": _SAVE,
    "save_interval": _SAVE,
    "checkpoint_interval": _SAVE,
    "cuda": 'use `device` = "cuda" or "cpu"',
    "num_gpus": 'use `device` = "cuda", and `devices` for several GPUs',
    "use_gpu": 'use `device` = "cuda"',
    "framework": "rookery computes with PyTorch: omit it",
    "torch_deterministic": "the same seed gives the same run here: omit it",
    "save": "every run saves its agent: omit it",
    "save_model": "every run saves its agent: omit it",
    "wandb_project_name": "the project is \"rookery\": use `monitor.wandb` = true alone",
    "wandb_entity": _WANDB,
    "project": "the project is \"rookery\": use `monitor.wandb` = true alone",
    "group": _WANDB,
    "tags": _WANDB,
    "notes": _WANDB,
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
    "time_limit": "use `steps`; of an episode, `episode_length`",
    "stop": "use `steps`, or `evaluation.stop_at` = 200, the return to reach",
    "render": _WATCH,
    "headless": _WATCH,
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
    "checkpoint_freq": _SAVE,
    "checkpoint_frequency": _SAVE,
    "normalize": "use `normalise_observations` = true and `normalise_rewards` = true",
    "num_cpu": _WORKERS,
    "num_cpus": _WORKERS,
    "n_cpu": _WORKERS,
    "nproc": _WORKERS,
    "training_num": _WORKERS,
    "num_threads": _WORKERS,
    "env_type": "every env has Gymnasium's interface: omit it",
    "iterations": _STEPS,
    "frames": _STEPS,
    "total_frames": _STEPS,
    "num_iterations": _STEPS,
    "num_updates": _STEPS,
    "n_iter": _STEPS,
    "max_epoch": _STEPS,
    "step_per_epoch": _STEPS,
    "step_per_collect": _ROLLOUT,
    "bptt_horizon": "use `ppo.rollout_length`, and `ppo.recurrent` = 256 for a recurrent network",
    "test_num": "use `evaluation.episodes`",
    "episode_per_test": "use `evaluation.episodes`",
    "hidden_size": _LAYERS,
    "hidden_layers": _LAYERS,
    "layers": _LAYERS,
    "num_layers": _LAYERS,
    "compile": "rookery compiles what it can by itself: omit it",
    "torch_compile": "rookery compiles what it can by itself: omit it",
    "frame_stack": _FRAMES,
    "n_stack": _FRAMES,
    "stack_num": _FRAMES,
    "seeds": "rookery.train_seeds(world, seeds=5) trains with several",
    "agent": "use `init_from`, a run or a folder that agent.save() wrote",
    "resume_from": "use rookery.resume(run), or `init_from` for a new run that begins with its agent",
    "restore": "use rookery.resume(run), or `init_from` for a new run that begins with its agent",
    "load_checkpoint_kind": "the best agent is loaded; best=False takes the last: omit it",
    "eval_callback": "evaluations are part of every run: use `evaluation.every` and `evaluation.episodes`",
    "callback": "use `callbacks`, a list of `rookery.Callback`; evaluations and checkpoints are part of every run",
    "seed_everything": "use `seed`",
    "n_eval_envs": "evaluations choose their number of envs by themselves: omit it",
    "early_stopping": _GOAL,
    "patience": _GOAL,
    "target_return": _GOAL,
    "solved_reward": _GOAL,
    "parallel": _WORKERS,
    "n_jobs": _SEARCH,
    "n_trials": _SEARCH,
    "num_samples": _SEARCH,
    "max_iters": _STEPS,
    "max_iter": _STEPS,
    "pretrained": _BEGIN,
    "load": _BEGIN,
    "demonstrations": _DATASET,
    "demos": _DATASET,
    "expert_data": _DATASET,
    "mixed_precision": _PRECISION,
    "amp": _PRECISION,
    "fp16": _PRECISION,
    "dtype": _PRECISION,
    "scale_rewards": "use `reward_scale` = 0.1, or `normalise_rewards` = true",
    "clip_rewards": _SKIP,
    "clip_reward": _SKIP,
    "clip_actions": "actions are clipped to the action space by themselves: omit it",
    "clip_action": "actions are clipped to the action space by themselves: omit it",
    "weight_decay": "the optimizer is Adam, without weight decay: omit it",
    "dropout": _OWN_NET,
    "use_attention": _OWN_NET,
    "use_transformer": _OWN_NET,
    "lstm": _RECURRENT,
    "frame_skip": _SKIP,
    "frameskip": _SKIP,
    "action_repeat": _SKIP,
    "noop_max": _SKIP,
    "scheduler": "use `learning_rate_schedule` = \"linear\"; of a search, `search.pruner` = \"asha\"",
    "direction": "returns are maximised: omit it",
    "logger": "use `monitor.wandb` = true or `monitor.mlflow` = true; every run writes TensorBoard files",
}  # fmt: skip
ANSWERS |= {"train_batch_size": _ROLLOUT, "train_batch_size_per_learner": _ROLLOUT, "monitor_dir": _FIXED}


def known_names() -> list[tuple[str, str]]:
    """Every name that is translated, with the key that it means, for suggestions. A name may mean several."""
    pairs = [(name, f"{learner}.{option}") for learner in OPTIONS for name, option in OPTIONS[learner].items()]
    return [*pairs, *RUN_KEYS.items()]
