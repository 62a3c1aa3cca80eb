"""What other libraries call the options of a learner and of a run: Stable-Baselines3, RL Zoo, CleanRL, RLlib, Sample
Factory, Tianshou and PufferLib.

A name with the same meaning is translated, and a line says so (config/translation.py). A name without an equivalent
raises an error that says what to write. Options are understood where options are: in the section of a learner
(`ppo.n_steps`), or without one. The tables in docs/migrating.md are made from this module.
"""

from __future__ import annotations

from collections.abc import Mapping


def by_name(names_of: Mapping[str, str]) -> dict[str, str]:
    """From names by what they mean, separated by spaces, to the meaning by name.

    >>> by_name({"gamma": "discount discount_factor"})
    {'discount': 'gamma', 'discount_factor': 'gamma'}
    """
    return {name: text for text, names in names_of.items() for name in names.split()}


# Their names of a learner's options, by learner: rookery's option.
_ALL = by_name({
    "learning_rate": "lr",
    "learning_rate_schedule": "lr_schedule",
    "hidden": "net_arch hidden_sizes hidden_dims fcnet_hiddens encoder_mlp_layers",
    "activation": "activation_fn fcnet_activation nonlinearity",
    "network": "features_extractor_class",
    "network_options": "features_extractor_kwargs",
    "gamma": "discount discount_factor discount_rate",
    "max_grad_norm": "grad_clip",
    "normalise_observations": "normalize_observations normalize_observation normalize_obs obs_norm normalize_input "
        "norm_obs",
    "normalise_rewards": "normalize_rewards normalize_reward normalize_returns norm_reward",
})  # fmt: skip
_REPLAY = _ALL | by_name({
    "start_steps": "learning_starts num_steps_sampled_before_learning_starts",
    "n_step": "n_steps",
    "buffer_size": "replay_buffer_size memory_size",
    "tau": "polyak",
})  # fmt: skip
_ROLLOUTS = _ALL | by_name({
    "rollout_length": "n_steps num_steps rollout horizon rollout_fragment_length",
    "epochs": "n_epochs num_epochs update_epochs num_sgd_iter repeat_per_collect k_epochs",
    "minibatches": "num_minibatches num_batches_per_epoch",
    "batch_size": "minibatch_size sgd_minibatch_size",
    "learning_rate_schedule": "anneal_lr",
})  # fmt: skip
_EPSILON = by_name({
    "epsilon_start": "exploration_initial_eps initial_epsilon start_e",
    "epsilon_end": "exploration_final_eps final_epsilon end_e",
})  # fmt: skip
_SAC = _REPLAY | {"ent_coef": "temperature", "alpha": "temperature", "initial_alpha": "temperature_start"}
_PPO = _ROLLOUTS | by_name({
    "gae_lambda": "lambda_",
    "clip": "clip_range clip_coef clip_param ppo_clip_ratio clip_ratio eps_clip",
    "clip_values": "clip_range_vf vf_clip_param ppo_clip_value vf_clip_coef",
    "entropy": "ent_coef entropy_coef entropy_coeff entropy_coefficient exploration_loss_coeff",
    "value_weight": "vf_coef vf_loss_coeff value_loss_coeff",
    "target_kl": "kl_target",
    "normalise_advantages": "normalize_advantage norm_adv",
    "log_std": "log_std_init",
    "recurrent": "rnn_size lstm_cell_size lstm_hidden_size",
})  # fmt: skip
OPTIONS: dict[str, dict[str, str]] = {
    "ppo": _PPO,
    "sac": _SAC,
    "dqn": _REPLAY | _EPSILON | {"epsilon_timesteps": "epsilon_steps", "double_q": "double", "double_dqn": "double"},
    "td3": _REPLAY
    | by_name(
        {
            "policy_noise": "target_policy_noise target_noise",
            "noise_clip": "target_noise_clip",
            "policy_delay": "policy_frequency",
        }
    ),
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
RUN_KEYS = by_name({
    "learner": "algo algorithm",
    "steps": "n_timesteps timesteps num_timesteps train_for_env_steps",
    "episode_length": "max_episode_steps",
    "world": "env_id env_name",
    "world_options": "env_kwargs env_config env_args",
    "name": "exp_name experiment_name experiment",
    "runs_dir": "train_dir output_dir logdir log_dir",
    "evaluation.episodes": "n_eval_episodes evaluation_duration",
    "monitor.wandb": "track with_wandb",
    "monitor.video": "capture_video save_video",
})  # fmt: skip
# Names without an equivalent here, with what to do instead.
ANSWERS = by_name({
    "it counts steps, and rookery counts updates: use `dqn.target_every`, with `dqn.tau` = 1.0 to copy all weights":
        "target_update_interval target_update target_network_frequency target_network_update_freq",
    "use `ppo.clip_values`, the clip range of value estimates as a number": "clip_vloss",
    'rookery has no state-dependent exploration: omit it, or use `noise` = "pink", exploration that is correlated over '
    "steps": "use_sde sde_sample_freq",
    "use `td3.exploration_noise`, the standard deviation as a number; for Ornstein-Uhlenbeck noise use `noise` = "
    '"pink", or 2.0 for its spectrum': "action_noise",
    'use `sac.temperature`: "auto" is learned, a number is constant': "autotune",
    "actor and critics have one learning rate here: use `learning_rate`": "policy_lr q_lr actor_lr critic_lr",
    "networks follow from the spaces: use `ppo.hidden` for their layers, or `ppo.network` for your own": "policy",
    "should be a dict with `net_arch`, `activation_fn`, `features_extractor_class` or `features_extractor_kwargs`; or "
    "use `ppo.hidden` = [64, 64]": "policy_kwargs",
    "use `policy_kwargs` = {features_extractor_class}, or `ppo.network`, a class": "features_extractor",
    "actor and critic share their encoder: omit it, or use `ppo.network` for your own two": "share_features_extractor",
    "bytes of images are divided by 255: omit it": "normalize_images",
    "layers have orthogonal weights at the start: omit it": "ortho_init",
    "the optimizer is Adam: omit it; `learning_rate` is its step size": "optimizer optimizer_class optimizer_kwargs",
    "use `ppo.hidden` for layers, `ppo.activation`, `ppo.recurrent` and `ppo.network`": "model",
    "use `ppo.recurrent` = 256, the width of a recurrent core": "use_lstm use_rnn lstm",
    "use `ppo.normalise_observations` = true": "observation_filter",
    "buffers cannot be replaced: omit it; `prioritised` = true gives prioritised replay":
        "replay_buffer_class replay_buffer_kwargs replay_buffer_config rollout_buffer_class",
    "rookery has no such option: omit it, or use a smaller `buffer_size`": "optimize_memory_usage",
    "means are over the last 100 episodes: omit it": "stats_window_size",
    "every run writes TensorBoard files into its folder, which `runs_dir` moves: omit it": "tensorboard_log",
    "use `name`, the name of the run": "tb_log_name",
    "rookery.resume(run, steps=...) continues a run: omit it": "reset_num_timesteps",
    "lines are printed by time: omit it": "log_interval print_freq log_freq",
    "use `monitor.panel` = true or false": "progress_bar",
    "use `evaluation.every`, in steps over all envs": "eval_freq evaluation_interval",
    "evaluations make envs of their own: omit it; `evaluation.every` and `evaluation.episodes` set them": "eval_env",
    "use `checkpoints.every`, in steps over all envs": "save_freq save_every_sec save_interval checkpoint_interval "
        "checkpoint_freq checkpoint_frequency",
    'use `device` = "cuda" or "cpu"': "cuda",
    'use `device` = "cuda", and `devices` for several GPUs': "num_gpus",
    'use `device` = "cuda"': "use_gpu",
    "rookery computes with PyTorch: omit it": "framework",
    "the same seed gives the same run here: omit it": "torch_deterministic",
    "every run saves its agent: omit it": "save save_model",
    'the project is "rookery": use `monitor.wandb` = true alone': "wandb_project_name project wandb_project",
    "use `monitor.wandb` = true; its own variables, such as WANDB_ENTITY, say the rest":
        "wandb_entity group tags notes",
    "agents are in the run's folder: omit it": "upload_model hf_entity",
    'use `backend` = "process" or "serial"': "vec_env_cls vec_env",
    "use `backend`, `workers` and `start_method`": "vec_env_kwargs",
    "use `wrappers`, a list of classes": "env_wrapper wrapper_class",
    "use `num_envs` for the number of envs; worker processes are chosen by themselves, or by `workers`: each steps "
    "several envs": "num_workers n_workers num_rollout_workers num_env_runners n_procs num_envs_per_worker "
        "num_envs_per_env_runner num_cpu num_cpus n_cpu nproc training_num num_threads parallel",
    "envs step while the learner learns: omit it; `cluster.asynchronous` = true does so on a cluster": "async_rl",
    'use `backend` = "serial"': "serial_mode",
    "use `steps`": "train_for_seconds max_time",
    "use `steps`; of an episode, `episode_length`": "time_limit",
    "use `steps`, or `evaluation.stop_at` = 200, the return to reach": "stop",
    "training opens no window: use `rookery watch RUN` while it runs, or `monitor.video` = true":
        "render headless render_mode",
    "use `monitor.video` = true; `rookery watch RUN --out FILE` records one of a trained agent": "video record_video",
    "give its keys themselves, as in rookery.train(world, learning_rate=1e-3)": "config",
    "give the options themselves, as in rookery.train(world, learning_rate=1e-3)": "args",
    'use `world` and `learner`, as in rookery.train(env, learner="ppo", steps=100_000)': "env env_fn make_env",
    "the best and the last agent are in the run's folder, which `runs_dir` moves: omit it":
        "save_path best_model_save_path log_path",
    "use `evaluation.stop_at` = 200, the mean return of an evaluation that ends the run":
        "reward_threshold stop_reward target_reward early_stopping patience target_return solved_reward",
    "use `normalise_observations` = true and `normalise_rewards` = true": "normalize",
    "every env has Gymnasium's interface: omit it": "env_type",
    "use `steps`, counted over all envs": "iterations frames total_frames num_iterations num_updates n_iter max_epoch "
        "step_per_epoch max_iters max_iter",
    "a batch of PPO is `num_envs` times `ppo.rollout_length` steps: use these, and `ppo.batch_size` for minibatches; "
    "others have `batch_size`": "step_per_collect train_batch_size train_batch_size_per_learner",
    "use `ppo.rollout_length`, and `ppo.recurrent` = 256 for a recurrent network": "bptt_horizon",
    "use `evaluation.episodes`": "test_num episode_per_test",
    "use `hidden` = [64, 64], the width of each layer": "hidden_size hidden_layers layers num_layers",
    "rookery compiles what it can by itself: omit it": "compile torch_compile",
    "Atari worlds stack 4 frames by themselves; for others use `wrappers`, such as my_file.py:MyWrapper":
        "frame_stack n_stack stack_num",
    "rookery.train_seeds(world, seeds=5) trains with several": "seeds",
    "use `init_from`, a run or a folder that agent.save() wrote": "agent pretrained load",
    "use rookery.resume(run), or `init_from` for a new run that begins with its agent": "resume_from restore",
    "the best agent is loaded; best=False takes the last: omit it": "load_checkpoint_kind",
    "evaluations are part of every run: use `evaluation.every` and `evaluation.episodes`": "eval_callback",
    "use `callbacks`, a list of `rookery.Callback`; evaluations and checkpoints are part of every run": "callback",
    "use `seed`": "seed_everything",
    "evaluations choose their number of envs by themselves: omit it": "n_eval_envs",
    "rookery.search(world, n_trials=50, jobs=2) searches for settings": "n_jobs n_trials num_samples",
    "rookery.clone imitates a dataset of Minari, and `sac.dataset` begins an off-policy run with recorded steps":
        "demonstrations demos expert_data",
    "use `ppo.precision`, and the same for the other learners": "mixed_precision amp fp16 dtype",
    "use `reward_scale` = 0.1, or `normalise_rewards` = true": "scale_rewards",
    "Atari worlds have it as an option in `world_options`; for others use `wrappers`, such as my_file.py:MyWrapper":
        "clip_rewards clip_reward frame_skip frameskip action_repeat noop_max",
    "actions are clipped to the action space by themselves: omit it": "clip_actions clip_action",
    "the optimizer is Adam, without weight decay: omit it": "weight_decay",
    "use `ppo.network`, a torch.nn.Module of your own": "dropout use_attention use_transformer",
    'use `learning_rate_schedule` = "linear"; of a search, `search.pruner` = "asha"': "scheduler",
    "returns are maximised: omit it": "direction",
    "use `monitor.wandb` = true or `monitor.mlflow` = true; every run writes TensorBoard files": "logger",
    "rookery has no such option: omit it": "monitor_dir",
})  # fmt: skip


def known_names() -> list[tuple[str, str]]:
    """Every name that is translated, with the key that it means, for suggestions. A name may mean several."""
    pairs = [(name, f"{learner}.{option}") for learner in OPTIONS for name, option in OPTIONS[learner].items()]
    return [*pairs, *RUN_KEYS.items()]
