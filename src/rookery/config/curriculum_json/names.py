"""The names in curriculum files of older trainers, and rookery's names for the same."""

from __future__ import annotations

from typing import Any

from rookery.learners.registry import specs

SECTIONS = ("curriculum", "hyperparameters", "training", "agent")
# Current keys that the old sections express; all other current keys are allowed beside the old sections.
REPLACED_KEYS = ("phases", "opponents", "learner", "learning_rate", "reward_scale", *specs())

MODES = {"normal": 250, "shooting": 80, "defense": 80}  # with the time limit of each
SCRIPTS = {"none": "none", "basic_weak": "weak", "basic_strong": "strong"}
OPPONENT_TYPES = (*SCRIPTS, "self_play", "weighted_mixture", "archive")
# Which fields of an opponent mean something for which type; `weight` and `deterministic` are never wrong.
OPPONENT_FIELDS = {"self_play": "checkpoint", "weighted_mixture": "opponents", "archive": "distribution"}

# Terms of the shaped reward: the world's info, its first and its final weight.
TERMS = {
    "closeness": ("reward_closeness_to_puck", 20.0, 1.5),
    "touch": ("reward_touch_puck", 15.0, 1.0),
    "direction": ("reward_puck_direction", 0.0, 2.0),
}
HOLD, FALL = 600, 400  # N and K

AGENTS = {"DDDQN": "dqn", "DDQN_PER": "dqn", "SAC": "sac", "TD3": "td3", "REDQTD3": "td3"}
HYPERPARAMETERS = {"learning_rate": "learning_rate", "batch_size": "batch_size"}
COMMON = HYPERPARAMETERS | {
    "hidden_dim": "hidden",
    "buffer_size": "buffer_size",
    "memory_size": "buffer_size",
    "discount": "gamma",
    "gamma": "gamma",
    "n_step": "n_step",
    "tau": "tau",
    "grad_clip": "max_grad_norm",
}
DQN = COMMON | {
    "target_update_freq": "target_every",
    "eps": "epsilon_start",
    "eps_min": "epsilon_end",
    "eps_decay": "epsilon_decay",
    "use_huber_loss": "loss",
    "use_per": "prioritised",
    "per_alpha": "priority_exponent",
    "per_beta": "importance_exponent",
    "per_beta_start": "importance_exponent",
    "per_beta_steps": "importance_steps",
    "per_beta_frames": "importance_steps",
    "per_eps": "priority_floor",
    "per_epsilon": "priority_floor",
}
SAC = COMMON | {"alpha": "temperature", "noise": "noise"}
TD3 = COMMON | {
    "latent_dim": "hidden",
    "expl_noise": "exploration_noise",
    "policy_noise": "policy_noise",
    "noise_clip": "noise_clip",
    "policy_freq": "policy_delay",
    "policy_update_delay": "policy_delay",
    "num_Q": "num_critics",
    "num_min": "min_critics",
    "q_target_mode": "target_mode",
    "priority_replay": "prioritised",
    "normalize_obs": "normalise_observations",
    "noise": "noise",
}
AGENT_FIELDS = {"dqn": DQN, "sac": SAC, "td3": TD3}
# Known as well, but not another name for an option.
ALSO_KNOWN = {
    "dqn": ("action_fineness", "per_beta_increment", "per_max_beta", "reward_clip"),
    "sac": ("learn_alpha", "max_episode_steps"),
    "td3": ("max_action", "max_episode_steps", "polyak", "utd_ratio"),
}
# Defaults of the old agents that differ from rookery's.
OLD_DEFAULTS: dict[str, dict[str, Any]] = {
    "DDDQN": {"n_step": 1, "prioritised": False},
    "DDQN_PER": {"n_step": 1},
    "SAC": {},
    "TD3": {},
    "REDQTD3": {"redq": True},
}

LEARNING = {"updates_per_step": "updates_per_step", "warmup_steps": "start_steps"}  # of `training`, for the learner
# Numbers >= this are steps, smaller ones are episodes: both are found in files.
STEPS_FROM = 10_000
EVERY = {"checkpoint_save_freq": "checkpoints", "checkpoint_frequency": "checkpoints", "eval_frequency": "evaluation"}
TRAINING = ("max_episode_steps", *LEARNING, "reward_scale", *EVERY)
