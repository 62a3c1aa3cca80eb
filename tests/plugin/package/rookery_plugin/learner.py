"""The learner: PPO under another name."""

from rookery.learners.algorithms.ppo import PPO


class PluginLearner(PPO):
    """Learns as PPO does."""
