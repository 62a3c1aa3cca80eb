"""PPO at the ends of episodes, from `explore` and `record` to returns, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from learners.scripted import Scene, Script, play, tell
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch
from rookery.learners.registry import PPOOptions

SPACE = spaces.Box(-1000, 1000, (1,))


def linear_critic(num_envs: int, **options: object) -> PPO:
    """A learner whose critic says of an observation x that it is worth x."""
    settings = PPOOptions(hidden=[], gamma=0.5, gae_lambda=0.5, **options)
    learner = PPO(SPACE, spaces.Discrete(2), settings, num_envs)
    learner.policy.critic.layers[0].weight.data.fill_(1.0)
    return learner


def feed(learner: PPO, seen: list[list[float]], rewards: list[list[float]], ends: dict[int, Scene]) -> None:
    """Show `seen[0]`, then after each step the next row; `ends` replaces flags and finals of some steps."""
    num_envs = len(seen[0])
    everyone = slice(0, num_envs)
    for t, gained in enumerate(rewards):
        learner.explore(np.float32(seen[t])[:, None], everyone)
        quiet = np.zeros(num_envs, np.bool_)
        answer = ends.get(t, Scene(None, quiet, quiet, quiet, [], None))
        tell(
            learner,
            answer._replace(observations=np.float32(seen[t + 1])[:, None], rewards=np.array(gained)),
            everyone,
        )


def end(terminated: list[int], truncated: list[int], finals: list[float]) -> Scene:
    flags = (np.array(flag, np.bool_) for flag in (terminated, truncated))
    return Scene(None, np.zeros(0), *flags, [np.float32([x]) for x in finals], None)


def test_a_truncated_episode_is_worth_its_final_observation() -> None:
    """Env 0 is truncated with final observation 8, env 1 terminates with 70; the next episodes begin at 100 and 200,
    which count for neither."""
    learner = linear_critic(2, rollout_length=3)
    feed(
        learner,
        seen=[[1, 1], [2, 2], [100, 200], [50, 60]],
        rewards=[[1, 1], [3, 3], [10, 20]],
        ends={1: end([0, 1], [1, 0], [8, 70])},
    )
    assert learner.ready()
    judged = learner.evaluate_rollout()
    # errors: env 0: 1 + 2/2 - 1 = 1,  3 + 8/2 - 2 = 5,  10 + 50/2 - 100 = -65;  a quarter of the next is carried
    #         env 1: 1 + 2/2 - 1 = 1,  3 +  0  - 2 = 1,  20 + 60/2 - 200 = -150
    assert judged["advantages"].tolist() == [[1 + 5 / 4, 1 + 1 / 4], [5, 1], [-65, -150]]
    assert judged["values"].tolist() == [[1, 1], [2, 2], [100, 200]]
    assert judged["returns"].tolist() == [[3.25, 2.25], [7, 3], [35, 50]]


def test_ends_at_the_last_step_of_a_rollout() -> None:
    """There too the final observation counts, not the next episode's first one, which the rollout saw last."""
    learner = linear_critic(2, rollout_length=1)
    feed(learner, seen=[[1, 1], [100, 200]], rewards=[[3, 3]], ends={0: end([0, 1], [1, 0], [8, 70])})
    assert learner.evaluate_rollout()["returns"].tolist() == [[3 + 8 / 2, 3]]


def test_terminated_and_truncated_at_once_is_terminated() -> None:
    """A goal reached in the last allowed step is the end."""
    learner = linear_critic(1, rollout_length=1)
    feed(learner, seen=[[1], [100]], rewards=[[3]], ends={0: end([1], [1], [8])})
    assert learner.evaluate_rollout()["returns"].tolist() == [[3.0]]


def test_groups_keep_their_own_finals() -> None:
    """The second group's truncated env, at place 1 of its rows, is env 3."""
    learner = linear_critic(4, rollout_length=1)
    quiet = np.zeros(4, np.bool_)
    cut = np.array([0, 0, 0, 1], np.bool_)
    answer = Scene(np.float32([[10], [20], [30], [100]]), np.ones(4), quiet, cut, [np.float32([8])] * 4, None)
    for rows in (slice(0, 2), slice(2, 4)):
        learner.explore(np.float32([[1], [1]]), rows)
    for rows in (slice(2, 4), slice(0, 2)):
        tell(learner, answer, rows)
    assert learner.evaluate_rollout()["returns"].tolist() == [[1 + 5, 1 + 10, 1 + 15, 1 + 4]]


def test_scaled_rewards_and_bootstraps_go_together() -> None:
    """With reward scaling, rewards are scaled before the critic's value, which is in scaled units, is added."""
    learner = linear_critic(1, rollout_length=2, normalise_rewards=True)
    feed(learner, seen=[[1], [2], [100]], rewards=[[4], [8]], ends={1: end([0], [1], [8])})
    # returns so far are 4 and 8 + 4/2 = 10: their deviation is 3
    torch.testing.assert_close(learner.evaluate_rollout()["returns"][1], torch.tensor([8 / 3 + 8 / 2]))


def slow_values(learner: PPO, observations: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """What a recurrent critic thinks, and remembers."""
    memory = learner.policy.core(learner.policy.encoder([observations]), memory)
    return learner.policy.critic(memory).squeeze(-1), memory


@pytest.mark.parametrize("normalise", [False, True])
@torch.no_grad()
def test_a_recurrent_critic_judges_final_observations_by_what_it_remembers(normalise: bool) -> None:
    """Returns of a random rollout are those of a plain loop that follows each env's memory through its episodes; the
    final observation is judged with the memory of the episode it ends."""
    space = spaces.Box(-2, 2, (3,))
    options = PPOOptions(rollout_length=12, recurrent=5, hidden=[8], normalise_observations=normalise)
    learner = PPO(space, spaces.Discrete(2), options, 3)
    script = Script(space, 3, seed=4, ends=0.4)
    play(learner, script, 12)
    with torch.enable_grad():
        learner.update()  # so that memories and normaliser do not begin at nothing
    memory = learner.memory.clone()
    play(learner, script, 12)
    steps = script.history[12:]
    expected, values, afters = (torch.zeros(12, 3) for _ in range(3))
    for t, (seen, answer) in enumerate(steps):
        values[t], memory = slow_values(learner, torch.from_numpy(seen), memory)
        afters[t], _ = slow_values(learner, torch.from_numpy(answer.observations), memory)
        for env in np.flatnonzero(answer.terminated | answer.truncated):
            afters[t, env] = slow_values(learner, torch.from_numpy(answer.finals[env])[None], memory[env, None])[0]
            memory[env] = 0.0
    carried = torch.zeros(3)
    for t in reversed(range(12)):
        _, answer = steps[t]
        after = afters[t] * torch.from_numpy(~answer.terminated)
        error = torch.from_numpy(answer.rewards).float() + 0.99 * after - values[t]
        carried = error + 0.99 * 0.95 * carried * torch.from_numpy(~(answer.terminated | answer.truncated))
        expected[t] = carried + values[t]
    judged = learner.evaluate_rollout()
    torch.testing.assert_close(judged["values"], values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(judged["returns"], expected, rtol=1e-4, atol=1e-4)


def test_values_converge_to_those_of_a_task_without_end() -> None:
    """Reward 1 at every step with gamma 0.9 is worth 10, however often episodes are cut; where each third step is the
    end, a state that cannot tell them apart is worth far less."""
    found = {}
    for kind in ("truncated", "terminated"):
        options = PPOOptions(
            rollout_length=9, hidden=[], gamma=0.9, learning_rate=0.3, value_weight=1.0, max_grad_norm=9
        )
        learner = PPO(spaces.Discrete(1), spaces.Discrete(2), options, 4)
        zeros, ones, everyone = np.zeros(4, np.int64), np.ones(4, np.bool_), slice(0, 4)
        for t in range(1, 9 * 40 + 1):
            learner.explore(zeros, everyone)
            ended = ones if t % 3 == 0 else ~ones
            flags = (ended, ~ones) if kind == "terminated" else (~ones, ended)
            finals = (np.arange(4), list(zeros)) if t % 3 == 0 else None
            learner.record(everyone, StepBatch(zeros, np.ones(4), *flags, finals))
            if learner.ready():
                learner.progress = t / (9 * 40)
                learner.update()
        with torch.no_grad():
            found[kind] = learner.policy.critic(learner.policy.features([torch.zeros(1, dtype=torch.int64)])).item()
    assert found["truncated"] == pytest.approx(10.0, abs=0.5)
    assert 1.0 < found["terminated"] < 3.5
