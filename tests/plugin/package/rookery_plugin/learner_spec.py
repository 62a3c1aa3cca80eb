"""What rookery should know about the learner."""

from gymnasium import spaces

from rookery.learners.registry import LearnerSpec, PPOOptions


class PluginOptions(PPOOptions):
    """The options of PPO."""


PLUGIN_LEARNER = LearnerSpec(
    name="plugin-learner",
    learner="rookery_plugin.learner:PluginLearner",
    policy="rookery.learners.algorithms.ppo:ActorCritic",
    options=PluginOptions,
    supports=lambda space: isinstance(space, spaces.Discrete),
    needs="plugin-learner needs a Discrete",
)
