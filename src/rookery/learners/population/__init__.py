"""PPO learners that differ only in numbers, updated together: stacked parameters, one batched program."""
