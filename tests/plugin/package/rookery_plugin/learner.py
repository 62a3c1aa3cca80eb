"""The learner: PPO under another name."""

from rookery.learners.ppo import PPO


class PluginLearner(PPO):
    """Learns as PPO does."""
