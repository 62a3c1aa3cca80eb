"""The option names of Stable-Baselines3 and CleanRL, and rookery's names for the same.

They are understood where options are: in the section of a learner (`ppo.n_steps`), or without one, as in a flat list of
options (`n_steps`). A name with the same meaning is translated, and a line says so. A name whose meaning is different
here is refused with the name to use instead. The tables in docs/migrating.md are made from this module.
"""

from __future__ import annotations

# Their names of a learner's options, by learner: rookery's option.
_ALL = {
    "lr": "learning_rate",
    "net_arch": "hidden",
    "activation_fn": "activation",
    "features_extractor_class": "network",
    "features_extractor_kwargs": "network_options",
    "normalize_observations": "normalise_observations",
    "norm_obs": "normalise_observations",
    "normalize_rewards": "normalise_rewards",
    "norm_reward": "normalise_rewards",
}
_REPLAY = _ALL | {"learning_starts": "start_steps", "n_steps": "n_step"}
OPTIONS: dict[str, dict[str, str]] = {
    "ppo": _ALL
    | {
        "n_steps": "rollout_length",
        "num_steps": "rollout_length",
        "n_epochs": "epochs",
        "update_epochs": "epochs",
        "num_minibatches": "minibatches",
        "minibatch_size": "batch_size",
        "clip_range": "clip",
        "clip_coef": "clip",
        "clip_range_vf": "clip_values",
        "ent_coef": "entropy",
        "vf_coef": "value_weight",
        "normalize_advantage": "normalise_advantages",
        "norm_adv": "normalise_advantages",
        "anneal_lr": "learning_rate_schedule",
        "log_std_init": "log_std",
    },
    "sac": _REPLAY | {"ent_coef": "temperature", "alpha": "temperature"},
    "dqn": _REPLAY
    | {
        "exploration_initial_eps": "epsilon_start",
        "start_e": "epsilon_start",
        "exploration_final_eps": "epsilon_end",
        "end_e": "epsilon_end",
    },
    "td3": _REPLAY
    | {
        "target_policy_noise": "policy_noise",
        "target_noise_clip": "noise_clip",
        "policy_frequency": "policy_delay",
    },
}
# The same here and there: known without the learner's section too.
SAME = (
    "batch_size", "buffer_size", "exploration_noise", "gae_lambda", "gamma", "max_grad_norm", "noise_clip",
    "policy_delay", "policy_noise", "target_entropy", "target_kl", "tau",
)  # fmt: skip
# Translated with the help of another key.
COMBINED = ("train_freq", "train_frequency", "gradient_steps", "exploration_fraction")
# Keys of the run.
RUN_KEYS = {
    "n_timesteps": "steps",
    "env_id": "world",
    "env_kwargs": "world_options",
    "exp_name": "name",
    "n_eval_episodes": "evaluation.episodes",
    "track": "monitor.wandb",
    "capture_video": "monitor.video",
}
_NO_SDE = 'rookery has no state-dependent exploration: omit it, or use `sac.noise` = "pink"'
_TARGET = (
    "it counts steps, and rookery counts updates: use `dqn.target_every`, with `dqn.tau` = 1.0 to copy all weights"
)
_ONE_RATE = "actor and critics have one learning rate here: use `learning_rate`"
_OWN_CLASS = "buffers cannot be replaced: omit it; `prioritised` = true gives prioritised replay"
# What has no equal here, with what to do instead.
ANSWERS = {
    "target_update_interval": _TARGET,
    "target_network_frequency": _TARGET,
    "clip_vloss": "use `ppo.clip_values`, the clip range of value estimates as a number",
    "use_sde": _NO_SDE,
    "sde_sample_freq": _NO_SDE,
    "action_noise": "use `td3.exploration_noise`, the standard deviation as a number, or `td3.noise` = \"pink\"",
    "autotune": 'use `sac.temperature`: "auto" is learned, a number is constant',
    "policy_lr": _ONE_RATE,
    "q_lr": _ONE_RATE,
    "policy": "networks follow from the spaces: use `ppo.hidden` for their layers, or `ppo.network` for your own",
    "policy_kwargs": "should be a table with `net_arch` and `activation_fn`; or use `ppo.hidden` = [64, 64]",
    "replay_buffer_class": _OWN_CLASS,
    "replay_buffer_kwargs": _OWN_CLASS,
    "rollout_buffer_class": _OWN_CLASS,
    "optimize_memory_usage": "rookery has no such option: omit it, or use a smaller `buffer_size`",
    "stats_window_size": "means are over the last 100 episodes: omit it",
    "tensorboard_log": "use `monitor.tensorboard` = true; the files are in the run's folder, which `runs_dir` moves",
    "log_interval": "lines are printed by time: omit it",
    "progress_bar": "use `monitor.panel` = true or false",
    "eval_freq": "use `evaluation.every`, in steps over all envs",
    "save_freq": "use `checkpoints.every`, in steps over all envs",
    "cuda": 'use `device` = "cuda" or "cpu"',
    "torch_deterministic": "the same seed gives the same run here: omit it",
    "save_model": "every run saves its agent: omit it",
    "wandb_project_name": "the project is \"rookery\": use `monitor.wandb` = true alone",
    "vec_env_cls": "use `backend` = \"process\" or \"serial\"",
}  # fmt: skip


def known_names() -> list[tuple[str, str]]:
    """Every name that is translated, with the key that it means, for suggestions. A name may mean several."""
    pairs = [(name, f"{learner}.{option}") for learner in OPTIONS for name, option in OPTIONS[learner].items()]
    return [*pairs, *RUN_KEYS.items()]
