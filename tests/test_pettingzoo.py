"""`rookery.pettingzoo.make_vec`: agents as rows."""

import functools
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test import parallel_api_test
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper

import rookery
from rookery.errors import OptionError, SpaceError, StateError, WorldError
from rookery.pettingzoo import make_vec

BACKENDS = [{"backend": "serial"}, {"backend": "process", "workers": 2}]


class Party(ParallelEnv):
    """Agent k leaves after its own number of steps. Zeros lie outside the observation space on purpose."""

    metadata = {"name": "party_v0", "render_modes": ["rgb_array"]}

    def __init__(self, lives=(2, 3, 5), truncate=(), talk=False, break_at=None):
        self.possible_agents = [f"guest_{k}" for k in range(len(lives))]
        self.lives, self.truncate, self.talk = dict(zip(self.possible_agents, lives, strict=True)), truncate, talk
        self.break_at, self.render_mode = break_at, "rgb_array"
        self.rng = np.random.default_rng()

    @functools.cache  # noqa: B019
    def observation_space(self, agent):
        return spaces.Box(1, 1000, (2,), np.float32)

    @functools.cache  # noqa: B019
    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.time, self.actions = list(self.possible_agents), 0, []
        self.luck = float(self.rng.integers(1, 900))
        return self._see({a: 0 for a in self.agents}), {a: self._say(a) for a in self.agents}

    def step(self, actions):
        self.time += 1
        self.actions.append(dict(actions))
        if self.time == self.break_at:
            raise RuntimeError("the lights went out")
        rewards = {a: float(action) + self.time / 10 for a, action in actions.items()}
        over = {a: self.lives[a] <= self.time for a in self.agents}
        terminated = {a: over[a] and a not in self.truncate for a in self.agents}
        truncated = {a: over[a] and a in self.truncate for a in self.agents}
        seen, said = self._see(actions), {a: self._say(a) for a in self.agents}
        self.agents = [a for a in self.agents if not over[a]]
        return seen, rewards, terminated, truncated, said

    def _see(self, actions):
        return {a: np.array([self.luck, 1 + self.time + action], np.float32) for a, action in actions.items()}

    def _say(self, agent):
        return {"time": self.time, "who": agent} if self.talk else {}

    def log(self):
        return self.actions

    def render(self):
        return np.full((2, 2, 3), self.time, np.uint8)


class Nested(Party):
    """Dict observations and Tuple actions."""

    @functools.cache  # noqa: B019
    def observation_space(self, agent):
        return spaces.Dict({"clock": spaces.Discrete(100), "hands": spaces.Tuple([spaces.MultiBinary(3)])})

    @functools.cache  # noqa: B019
    def action_space(self, agent):
        return spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)])

    def step(self, actions):
        self.raw = actions
        return super().step({agent: int(action[1]) for agent, action in actions.items()})

    def _see(self, actions):
        return {a: {"clock": self.time, "hands": (np.array([1, 0, k == 1], np.int8),)} for k, a in enumerate(actions)}


class Legible(Party):
    """Keeps listing and flagging agents that have finished, as some envs do."""

    def step(self, actions):
        self.agents = [a for a in self.possible_agents if self.lives[a] >= self.time + 1]
        seen, rewards, _, truncated, said = super().step(actions)
        self.agents = list(self.possible_agents)
        flags = {a: self.lives[a] <= self.time for a in self.agents}
        return seen, {a: rewards.get(a, 77.0) for a in self.agents}, flags, truncated, said


class Vanishing(Party):
    """Agents leave without a flag."""

    def step(self, actions):
        seen, rewards, _, _, said = super().step(actions)
        nobody = dict.fromkeys(actions, False)
        return seen, rewards, nobody, nobody, said


class Latecomer(Party):
    """The last agent joins at the second step."""

    def reset(self, seed=None, options=None):
        seen, said = super().reset(seed=seed)
        late = self.agents.pop()
        seen.pop(late)
        return seen, said

    def step(self, actions):
        result = super().step(actions)
        if self.time == 2:
            late = self.possible_agents[-1]
            self.agents.append(late)
            result[0][late] = np.array([5, 5], np.float32)
        return result


class Unequal(Party):
    """The second agent sees more."""

    def observation_space(self, agent):
        return spaces.Box(0, 1, (3 if agent == "guest_1" else 2,), np.float32)


class Wordy(Party):
    """Agents with an action that is not an array."""

    def action_space(self, agent):
        return spaces.Text(5)


class Misshapen(Party):
    """The second agent's observations are too long."""

    def _see(self, actions):
        seen = super()._see(actions)
        if self.time == 1:
            seen["guest_1"] = np.ones(3, np.float32)
        return seen


class Nan(Party):
    """The second agent's reward is not a number."""

    def step(self, actions):
        result = super().step(actions)
        result[1]["guest_1"] = float("nan")
        return result


class FromArguments(Party, EzPickle):
    """Pickled as its constructor's arguments."""

    def __init__(self):
        EzPickle.__init__(self)
        super().__init__()


def rows(world, num_envs=2, **options):
    return make_vec(world, num_envs, **{"backend": "serial", **options})


def run_alone(seed, actions_of_steps, **kwargs):
    """One Party played by hand, episode after episode; yields what PettingZoo returned for each step."""
    env = Party(**kwargs)
    env.reset(seed=seed)
    for actions in actions_of_steps:
        alive = list(env.agents)
        results = env.step({a: action for a, action in zip(env.possible_agents, actions, strict=True) if a in alive})
        following = env.reset()[0] if not env.agents else results[0]
        yield alive, list(env.agents), *results, following


def test_the_test_env_is_a_parallel_env():
    """The env these tests stand on passes PettingZoo's own test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(Party(), num_cycles=20)


def test_shape_of_things():
    """Rows are worlds times agents, env-major, with the spaces of one agent."""
    envs = rows(Party, 4)
    assert isinstance(envs, gym.vector.VectorEnv)
    assert (envs.num_envs, envs.num_worlds, envs.agents) == (12, 4, ("guest_0", "guest_1", "guest_2"))
    assert envs.single_observation_space == spaces.Box(1, 1000, (2,), np.float32)
    assert envs.single_action_space == spaces.Discrete(4)
    assert envs.observation_space.shape == (12, 2)
    assert envs.action_space == spaces.MultiDiscrete([4] * 12)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.metadata["name"] == "party_v0"
    observations, infos = envs.reset(seed=0)
    assert observations.shape == (12, 2)
    assert infos["agent_mask"].tolist() == [True] * 12
    envs.close()
    assert envs.closed
    assert envs.engine.closed


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_same_as_by_hand(options):
    """Every row equals what the agent gets from the bare env: through finished agents, ends of worlds and resets."""
    seeds, lives = [11, 22, 33], (2, 3, 5)
    envs = rows(Party, 3, env_kwargs={"lives": lives, "truncate": ("guest_1",)}, **options)
    envs.reset(seed=seeds)
    plan = np.random.default_rng(0).integers(4, size=(17, 3, 3))
    alone = [run_alone(seed, plan[:, k], lives=lives, truncate=("guest_1",)) for k, seed in enumerate(seeds)]
    for step, actions in enumerate(plan):
        observations, rewards, terminated, truncated, infos = envs.step(actions.reshape(-1))
        for world, by_hand in enumerate(alone):
            alive, left, seen, earned, died, cut, _, following = next(by_hand)
            for k, agent in enumerate(envs.agents):
                row = world * 3 + k
                where = f"step {step}, row {row}"
                assert rewards[row] == earned.get(agent, 0.0), where
                assert terminated[row] == died.get(agent, False), where
                assert truncated[row] == cut.get(agent, False), where
                acts_next = agent in left or not left
                assert infos["agent_mask"][row] == acts_next, where
                assert observations[row].tolist() == (following[agent].tolist() if acts_next else [0, 0]), where
                done = terminated[row] or truncated[row]
                if done:
                    assert agent in alive
                    assert infos["final_obs"][row].tolist() == seen[agent].tolist(), where
                if "final_obs" in infos:
                    assert infos["_final_obs"][row] == done
    envs.close()


def test_an_end_is_told_once():
    """A row ends in the step its agent finishes, and not again when its world does."""
    envs = rows(Party, 1)
    envs.reset(seed=1)
    ends = np.array([np.stack(envs.step([0, 0, 0])[2:4]) for _ in range(10)])
    assert ends[:, 0].sum(axis=0).tolist() == [2, 2, 2]
    assert np.flatnonzero(ends[:, 0, 0]).tolist() == [1, 6]
    assert np.flatnonzero(ends[:, 0, 2]).tolist() == [4, 9]
    envs.close()


def test_finished_agents_do_not_act():
    """The env receives actions of living agents only, each its own."""
    envs = rows(Party, 2)
    envs.reset(seed=1)
    for _ in range(4):
        envs.step([0, 1, 2, 3, 2, 1])
    first, second = envs.engine.call("log")
    assert first == [{"guest_0": 0, "guest_1": 1, "guest_2": 2}] * 2 + [{"guest_1": 1, "guest_2": 2}] + [{"guest_2": 2}]
    assert second[0] == {"guest_0": 3, "guest_1": 2, "guest_2": 1}
    envs.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_nested_spaces(options):
    """Dict observations and Tuple actions are batched by row as Gymnasium batches them."""
    envs = rows(Nested, 2, **options)
    observations, _ = envs.reset(seed=0)
    assert observations["clock"].shape == (6,)
    assert observations["hands"][0].tolist() == [[1, 0, 0], [1, 0, 1], [1, 0, 0]] * 2
    envs.action_space.seed(3)
    actions = envs.action_space.sample()
    observations, _, terminated, _, infos = envs.step(actions)
    assert observations["clock"].tolist() == [1] * 6
    for world, raw in enumerate(envs.engine.get_attr("raw")):
        for k, agent in enumerate(envs.agents):
            np.testing.assert_array_equal(raw[agent][0], actions[0][3 * world + k])
            assert raw[agent][1] == actions[1][3 * world + k]
    observations, _, terminated, _, infos = envs.step(actions)
    assert terminated.tolist() == [True, False, False] * 2
    assert infos["final_obs"][3]["clock"] == 2
    assert infos["final_obs"][3]["hands"][0].tolist() == [1, 0, 0]
    assert observations["clock"].tolist() == [0, 2, 2] * 2
    envs.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_infos_by_row(options):
    """Agents' infos are columns over rows; those of an agent's last step are under `final_info`."""
    envs = rows(Party, 2, env_kwargs={"lives": (1, 2), "talk": True}, **options)
    _, infos = envs.reset(seed=0)
    assert infos["who"].tolist() == ["guest_0", "guest_1"] * 2
    *_, infos = envs.step([0] * 4)
    assert infos["_time"].tolist() == [False, True] * 2
    assert infos["_final_info"].tolist() == [True, False] * 2
    assert infos["final_info"]["_time"].tolist() == [True, False] * 2
    assert infos["final_info"]["who"][2] == "guest_0"
    *_, infos = envs.step([0] * 4)
    assert infos["time"].tolist() == [0, 0, 0, 0]
    assert infos["_time"].tolist() == [True] * 4
    assert infos["final_info"]["_time"].tolist() == [False, True] * 2
    assert infos["final_info"]["time"][[1, 3]].tolist() == [2, 2]
    envs.close()


def test_silent_agents_leave_no_infos():
    """Empty infos cost nothing and leave nothing but the mask."""
    envs = rows(Party)
    _, infos = envs.reset(seed=0)
    assert set(infos) == {"agent_mask", "_agent_mask"}
    assert set(envs.step([0] * 6)[4]) == {"agent_mask", "_agent_mask"}
    envs.close()


def test_agents_that_stay_listed():
    """An env that keeps listing, flagging and rewarding finished agents gives the same rows as one that does not."""
    strict, loose = rows(Party, 1), rows(Legible, 1)
    strict.reset(seed=[4])
    loose.reset(seed=[4])
    for _ in range(11):
        expected, result = strict.step([1, 2, 3]), loose.step([1, 2, 3])
        for a, b in zip(expected[:4], result[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(expected[4]["agent_mask"], result[4]["agent_mask"])
    strict.close()
    loose.close()


def test_agents_that_vanish_are_truncated():
    """An agent that leaves without a flag ends as truncated, in its world's last step too."""
    envs = rows(Vanishing, 1, env_kwargs={"lives": (1, 3)})
    envs.reset(seed=0)
    flags = [tuple(flag.tolist() for flag in envs.step([0, 0])[2:4]) for _ in range(3)]
    assert flags[0] == ([False, False], [True, False])
    assert flags[2] == ([False, False], [False, True])
    envs.close()


def test_agents_that_come_late():
    """An agent that is not there yet is masked out, and its row comes alive when it joins."""
    envs = rows(Latecomer, 1, env_kwargs={"lives": (4, 5, 5)})
    observations, infos = envs.reset(seed=0)
    assert infos["agent_mask"].tolist() == [True, True, False]
    assert observations[2].tolist() == [0, 0]
    envs.step([0, 0, 0])
    observations, *_, infos = envs.step([0, 0, 0])
    assert infos["agent_mask"].tolist() == [True, True, True]
    assert observations[2].tolist() == [5, 5]
    envs.close()


def test_a_world_that_breaks_is_restarted():
    """With `on_failure="restart"` the rows of a broken world come back truncated, marked `restarted`, and go on."""
    envs = rows(Party, 2, env_kwargs={"break_at": 3, "lives": (9, 9)}, on_failure="restart")
    envs.reset(seed=0)
    for _ in range(2):
        envs.step([0] * 4)
    _, rewards, terminated, truncated, infos = envs.step([0] * 4)
    assert truncated.tolist() == [True] * 4
    assert not terminated.any()
    assert not rewards.any()
    assert infos["restarted"].tolist() == [True] * 4
    assert infos["agent_mask"].all()
    assert not envs.step([0] * 4)[3].any()
    envs.close()


def test_same_numbers_whatever_the_backend():
    """World i gets the i-th child of the seed: serial, thread and process give the same rows."""
    results = []
    for options in ({"backend": "serial"}, {"backend": "thread", "workers": 2}, {"backend": "process", "workers": 3}):
        envs = rows(Party, 3, **options)
        played = [envs.reset(seed=5)[0]] + [envs.step(np.arange(9) % 4)[0] for _ in range(8)]
        results.append(np.stack(played))
        envs.close()
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert len(set(results[0][0, :, 0].tolist())) == 3


def test_reset_mask_by_world():
    """A partial reset takes whole worlds: the others go on, finished agents and all."""
    envs = rows(Party, 2, env_kwargs={"lives": (1, 4)})
    envs.reset(seed=1)
    before, *_ = envs.step([0] * 4)
    after, infos = envs.reset(options={"reset_mask": np.array([True, True, False, False])})
    assert infos["agent_mask"].tolist() == [True, True, False, True]
    np.testing.assert_array_equal(after[2:], before[2:])
    assert after[:, 1].tolist() == [1, 1, 0, 2]
    with pytest.raises(OptionError, match="complete worlds"):
        envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(OptionError, match=r"shape \(4,\)"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.close()


def test_results_outlive_the_next_step():
    """Rewards and flags are never views, even with `copy=False`."""
    envs = rows(Party, 2, copy=False)
    envs.reset(seed=0)
    _, *arrays, _ = envs.step([1] * 6)
    kept = [array.copy() for array in arrays]
    envs.step([2] * 6)
    for array, copy in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
    envs.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_unequal_spaces_name_the_agents(options):
    """Agents with different spaces are rejected by name."""
    with pytest.raises(SpaceError, match=r"same observation space: 'guest_0' has .*\(2,\).*'guest_1' has .*\(3,\)"):
        rows(Unequal, **options)


def test_spaces_without_arrays_are_refused():
    """Text and the like have no rows."""
    with pytest.raises(SpaceError, match="made of arrays"):
        rows(Wordy)


def test_bad_observations_name_the_agent():
    """An observation of the wrong shape is rejected with the agent's name, NaN rewards with the agent's place."""
    envs = rows(Misshapen)
    envs.reset(seed=0)
    with pytest.raises(SpaceError, match=r"agent 'guest_1': observation should be of shape \(2,\), got shape \(3,\)"):
        envs.step([0] * 6)
    envs.close()
    envs = rows(Nan)
    envs.reset(seed=0)
    with pytest.raises(rookery.errors.BadValue, match=r"\['reward'\]\[1\] is nan"):
        envs.step([0] * 6)
    envs.close()


def test_bad_actions():
    """Actions of the wrong shape are rejected with the shape that is needed."""
    envs = rows(Party)
    envs.reset(seed=0)
    with pytest.raises(SpaceError, match=r"shape \(6,\) \(2 worlds of 3 agents"):
        envs.step([0, 0])
    envs.close()


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (lambda: gym.make("CartPole-v1"), "rookery.make_vec"),
        (lambda: object(), "possible_agents"),
    ],
)
def test_other_kinds_of_env(world, message):
    """What is not a ParallelEnv is rejected, and the error tells where it belongs."""
    with pytest.raises(WorldError, match=message):
        rows(world)


def test_other_autoreset_modes_are_refused():
    """A world starts over in the step that ends it; there is no other mode."""
    with pytest.raises(OptionError, match="same_step"):
        rows(Party, autoreset_mode="next_step")
    rows(Party, autoreset_mode="same_step").close()


def test_a_list_of_worlds():
    """A list gives each world its own maker."""
    envs = make_vec([lambda: Party(lives=(1, 1)), lambda: Party(lives=(3, 3))], backend="serial")
    envs.reset(seed=0)
    assert envs.step([0] * 4)[2].tolist() == [True, True, False, False]
    envs.close()


def test_the_env_inside_can_be_asked():
    """The engine's `call`, `get_attr`, `set_attr` and `render` reach the ParallelEnv."""
    envs = rows(Party)
    envs.reset(seed=0)
    envs.engine.set_attr("time", [3, 4])
    assert envs.engine.get_attr("time") == (3, 4)
    assert [int(image.max()) for image in envs.render()] == [3, 4]
    assert envs.render_mode == "rgb_array"
    envs.close()


def test_converted_aec_env():
    """An AEC env under PettingZoo's own conversion works."""
    assert isinstance(parallel_to_aec(Party()), AECEnv)
    envs = rows(lambda: aec_to_parallel(parallel_to_aec(Party())))
    direct = rows(Party)
    for a in (envs, direct):
        a.reset(seed=3)
    for _ in range(7):
        left, right = envs.step([1, 2, 3] * 2), direct.step([1, 2, 3] * 2)
        for a, b in zip(left[:4], right[:4], strict=True):
            np.testing.assert_array_equal(a, b)
    envs.close()
    direct.close()


def test_state_goes_on():
    """A saved engine goes on exactly, with its finished agents."""
    envs = rows(Party)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step([0] * 6)
    state = envs.engine.state_dict()
    expected = [envs.step([1] * 6) for _ in range(5)]
    envs.engine.load_state_dict(state)
    for step in expected:
        for a, b in zip(envs.step([1] * 6)[:4], step[:4], strict=True):
            np.testing.assert_array_equal(a, b)
    envs.close()


@pytest.mark.parametrize("world", [FromArguments, lambda: BaseParallelWrapper(FromArguments())])
def test_state_that_would_be_lost(world):
    """An env that pickles its arguments alone has no state to save, also behind PettingZoo's wrappers."""
    envs = rows(world)
    envs.reset(seed=0)
    with pytest.raises(StateError, match="EzPickle"):
        envs.engine.state_dict()
    envs.close()


class Careless(Party):
    """Draws from the global generator."""

    def reset(self, seed=None, options=None):
        result = super().reset(seed=seed)
        self.luck = float(np.random.randint(1, 900))
        return self._see({a: 0 for a in self.agents}), result[1]


def test_global_random_numbers_are_kept_apart():
    """An env that draws from `numpy.random` gives the same numbers whoever shares its worker."""
    results = []
    for options in ({"backend": "serial"}, {"backend": "process", "workers": 2}):
        envs = rows(Careless, 4, **options)
        results.append(envs.reset(seed=5)[0])
        envs.close()
    np.testing.assert_array_equal(*results)
    assert len(set(results[0][:, 0].tolist())) > 1


def test_gymnasiums_wrappers_on_rows():
    """RecordEpisodeStatistics counts the rows' episodes where all agents finish together."""
    envs = RecordEpisodeStatistics(rows(Party, 2, env_kwargs={"lives": (4, 4)}))
    envs.reset(seed=0)
    for _ in range(8):
        envs.step([1, 2, 1, 2])
    assert list(envs.length_queue) == [4] * 8
    assert np.allclose(list(envs.return_queue), [5.0, 9.0] * 4)
    envs.close()
