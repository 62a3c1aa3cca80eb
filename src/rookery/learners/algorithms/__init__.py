"""PPO, SAC, DQN, TD3 and PQN: networks, actions, targets, losses and the gradient step, each in one file."""
