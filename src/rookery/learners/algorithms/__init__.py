"""PPO, SAC, DQN and TD3: networks, actions, targets, losses and the gradient step, each in one file."""
