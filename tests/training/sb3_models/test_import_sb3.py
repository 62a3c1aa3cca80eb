"""Agents from models of Stable-Baselines3: the same actions, and nothing in the file is executed."""

from __future__ import annotations

import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd

import rookery
from rookery.cli.main import main
from rookery.errors import FileError, OptionError
from rookery.training.sb3_models.import_sb3 import import_sb3
from training.sb3_models.sb3_zips import Touch, changed, evil_data, evil_weights, save_model

ROWS = 1000
VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
ARM = spaces.Box(np.array([-1.0, 0.5], np.float32), np.array([3.0, 0.75], np.float32))
SCREEN = spaces.Box(0, 255, (64, 60, 3), np.uint8)
NN = torch.nn
KINDS = {  # algorithm, spaces, policy, its keywords
    "ppo": ("PPO", VECTOR, spaces.Discrete(4), "MlpPolicy", {}),
    "ppo, other critic": (
        "PPO", VECTOR, ARM, "MlpPolicy", {"net_arch": {"pi": [16], "vf": [8, 8]}, "activation_fn": NN.ReLU}
    ),
    "ppo, several choices": (
        "PPO", spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 5]), "MlpPolicy", {"activation_fn": NN.ELU}
    ),
    "ppo, switches": ("PPO", spaces.MultiBinary(6), spaces.MultiBinary(3), "MlpPolicy", {"net_arch": [12, 7, 5]}),
    "ppo, no hidden layer": ("PPO", spaces.Discrete(7), ARM, "MlpPolicy", {"net_arch": []}),
    "ppo, grid": ("PPO", spaces.Box(-1, 1, (2, 3, 4), np.float64), spaces.Discrete(3), "MlpPolicy", {}),
    "ppo, screen": ("PPO", SCREEN, ARM, "CnnPolicy", {}),
    "ppo, screen as a vector": ("PPO", SCREEN, ARM, "MlpPolicy", {"net_arch": [4]}),
    "a2c": ("A2C", VECTOR, spaces.Discrete(4), "MlpPolicy", {}),
    "sac": ("SAC", VECTOR, ARM, "MlpPolicy", {"net_arch": {"pi": [32, 16], "qf": [8]}}),
    "sac, gelu": ("SAC", VECTOR, ARM, "MlpPolicy", {"net_arch": [32], "activation_fn": NN.GELU}),
    "td3": ("TD3", VECTOR, ARM, "MlpPolicy", {}),
    "td3, silu": ("TD3", VECTOR, ARM, "MlpPolicy", {"net_arch": [24], "activation_fn": NN.SiLU}),
    "dqn": ("DQN", VECTOR, spaces.Discrete(4), "MlpPolicy", {}),
    "dqn, tanh": ("DQN", VECTOR, spaces.Discrete(4), "MlpPolicy", {"activation_fn": NN.Tanh}),
}  # fmt: skip


def observations(space: spaces.Space, rows: int = ROWS) -> np.ndarray:
    space.seed(3)
    return np.stack([np.asarray(space.sample()) for _ in range(rows)])


@pytest.fixture
def ppo(tmp_path):
    save_model(tmp_path / "ppo.zip", "PPO", VECTOR, spaces.Discrete(4))
    return tmp_path / "ppo.zip"


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_the_models_own(kind, tmp_path):
    algorithm, observed, acted, policy, kwargs = KINDS[kind]
    model = save_model(tmp_path / "model.zip", algorithm, observed, acted, policy, **kwargs)
    found = import_sb3(tmp_path / "model.zip")
    seen = observations(observed, 20 if observed is SCREEN else ROWS)
    if observed is SCREEN:  # SB3 saved the space with its channels first
        seen = (seen * np.linspace(0, 1, len(seen)).reshape(-1, 1, 1, 1)).astype(np.uint8)  # some dark, some bright
        assert found.agent.observation_space.shape == (3, 64, 60)
        actions = found.agent.act(seen.transpose(0, 3, 1, 2), deterministic=True)
    else:
        actions = found.agent.act(seen, deterministic=True)
    expected, _ = model.predict(seen, deterministic=True)
    np.testing.assert_allclose(actions, expected, atol=1e-6, rtol=0)
    assert len(np.unique(actions, axis=0)) > 1, "a model that always does the same shows nothing"


def test_values_of_screens_are_the_models_own(tmp_path):
    """The largest value of a network that was not trained is always the same action's: all values are compared."""
    model = save_model(tmp_path / "model.zip", "DQN", SCREEN, spaces.Discrete(3), "CnnPolicy", net_arch=[16])
    agent = import_sb3(tmp_path / "model.zip").agent
    seen = torch.from_numpy(observations(SCREEN, 5).transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        values, expected = agent.policy([seen]), model.q_net(seen)
    np.testing.assert_allclose(values, expected, atol=1e-6, rtol=0)


def test_a_dict_needs_the_env(tmp_path):
    """Its spaces are only in a pickle. Vectors and choices may be in any order."""
    (tmp_path / "my_env.py").write_text(
        "import numpy as np\nimport gymnasium as gym\nfrom gymnasium import spaces\n\n\n"
        "class MyEnv(gym.Env):\n"
        "    observation_space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,)), c=spaces.Discrete(2))\n"
        "    action_space = spaces.Box(-1, 1, (1,))\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.observation_space.seed(seed)\n"
        "        return self.observation_space.sample(), {}\n"
        "    def step(self, action):\n"
        "        return self.observation_space.sample(), 0.0, True, False, {}\n"
    )
    observed = spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,)), c=spaces.Discrete(2))
    model = save_model(tmp_path / "model.zip", "PPO", observed, spaces.Box(-1, 1, (1,)), "MultiInputPolicy")
    with pytest.raises(FileError, match=r"observation space Dict is only there as a pickle.*--env"):
        import_sb3(tmp_path / "model.zip")
    agent = import_sb3(tmp_path / "model.zip", f"{tmp_path}/my_env.py:MyEnv").agent
    seen = {key: observations(part, 200) for key, part in observed.items()}
    expected, _ = model.predict(seen, deterministic=True)
    np.testing.assert_allclose(agent.act(seen, deterministic=True), expected, atol=1e-6, rtol=0)


def test_the_env_gives_the_spaces(tmp_path):
    save_model(tmp_path / "model.zip", "PPO", spaces.Box(-9, 9, (4,)), spaces.Discrete(2))
    agent = import_sb3(tmp_path / "model.zip", "CartPole-v1").agent
    assert agent.observation_space.high[0] == np.float32(4.8)
    with pytest.raises(FileError, match="do not fit observations"):
        import_sb3(tmp_path / "model.zip", "Acrobot-v1")


@pytest.mark.parametrize("kind", [".npz", ".json"])
def test_normalised_observations(kind, tmp_path):
    model = save_model(tmp_path / "model.zip", "PPO", VECTOR, ARM)
    statistics, random = RunningMeanStd(shape=(5,)), np.random.default_rng(1)
    statistics.update(random.normal([0, 1, 2, 3, 4], [0.1, 1, 2, 3, 4], (500, 5)))
    numbers = {"mean": statistics.mean, "var": statistics.var, "count": 500.0, "epsilon": 1e-3, "clip_obs": 10.0}
    file = tmp_path / f"stats{kind}"
    if kind == ".npz":
        np.savez(file, **numbers)
    else:
        file.write_text(json.dumps({name: np.asarray(value).tolist() for name, value in numbers.items()}))
    agent = import_sb3(tmp_path / "model.zip", vecnormalize=file).agent
    seen = random.normal(0, 5, (ROWS, 5)).astype(np.float32)
    normal = np.clip((seen - statistics.mean) / np.sqrt(statistics.var + 1e-3), -10, 10).astype(np.float32)
    expected, _ = model.predict(normal, deterministic=True)
    np.testing.assert_allclose(agent.act(seen, deterministic=True), expected, atol=1e-6, rtol=0)


# --- from anyone ------------------------------------------------------------------------------------------------------


def test_pickles_in_data_are_not_loaded(ppo, tmp_path):
    sentinel = tmp_path / "sentinel"
    agent = import_sb3(changed(ppo, tmp_path / "evil.zip", data=evil_data(sentinel))).agent
    assert agent.observation_space == VECTOR
    assert not sentinel.exists()
    with pytest.raises(Exception), np.errstate(all="ignore"):  # SB3 itself would load them: the test can fail
        import stable_baselines3

        stable_baselines3.PPO.load(tmp_path / "evil.zip")
    assert sentinel.exists()


@pytest.mark.parametrize("member", ["policy", "variables"])
def test_pickles_in_weights_are_not_loaded(member, ppo, tmp_path):
    sentinel = tmp_path / "sentinel"
    evil = changed(ppo, tmp_path / "evil.zip", **{member: evil_weights(sentinel)})
    if member == "policy":
        with pytest.raises(FileError, match="more than weights"):
            import_sb3(evil)
    else:
        import_sb3(evil)  # pytorch_variables.pth is not even read
    assert not sentinel.exists()


def test_a_pickle_of_vecnormalize_is_refused_with_the_way_out(ppo, tmp_path, capsys):
    sentinel = tmp_path / "sentinel"
    (tmp_path / "vecnormalize.pkl").write_bytes(pickle.dumps(Touch(sentinel)))
    words = ["import-sb3", str(ppo), "--output", str(tmp_path / "agent")]
    assert main([*words, "--vecnormalize", str(tmp_path / "vecnormalize.pkl")]) == 2
    error = capsys.readouterr().err
    assert "it is not loaded" in error and "np.savez(" in error
    assert not (tmp_path / "agent").exists()
    (tmp_path / "stats.npz").write_bytes(_npz_of_objects(sentinel, tmp_path))
    with pytest.raises(FileError, match="cannot be read"):
        import_sb3(ppo, vecnormalize=tmp_path / "stats.npz")
    assert not sentinel.exists()


def _npz_of_objects(sentinel, folder) -> bytes:
    np.savez(folder / "objects.npz", mean=np.array([Touch(sentinel)], object), var=np.ones(1))
    return (folder / "objects.npz").read_bytes()


def test_strange_files(ppo, tmp_path):
    """One sentence each."""

    def zipped(**members: bytes) -> str:
        with zipfile.ZipFile(tmp_path / "strange.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, contents in members.items():
                archive.writestr(name.replace("__", "/").replace("_pth", ".pth"), contents)
        return "strange.zip"

    def cut() -> str:
        (tmp_path / "strange.zip").write_bytes(ppo.read_bytes()[:200])
        return "strange.zip"

    cases = [
        (lambda: "nothing.zip", "there is no file"),
        (lambda: "ppo.pkl", "is a pickle, which is never loaded"),
        (cut, "not a readable zip file"),
        (lambda: zipped(other=b"1"), "there is no 'data' inside"),
        (lambda: zipped(data=b"{}"), "there is no 'policy.pth' inside"),
        (lambda: zipped(data=b"[" * 200_000, policy_pth=b""), "its 'data' is not valid JSON|would grow"),
        (lambda: zipped(data=b"[]", policy_pth=b""), "should be a JSON object"),
        (lambda: zipped(data=b" " * 60_000_000, policy_pth=b""), "would grow from"),
        (lambda: zipped(data=b"{}", policy_pth=b"abc"), "not a file of torch"),
        (lambda: zipped(**{"..__..__etc": b"1", "data": b"{}"}), "names a file outside of itself"),
        (lambda: zipped(**{"__etc": b"1", "data": b"{}"}), "names a file outside of itself"),
    ]
    (tmp_path / "ppo.pkl").write_bytes(pickle.dumps(1))
    for make, message in cases:
        with pytest.raises(FileError, match=message) as caught:
            import_sb3(tmp_path / make())
        assert "\n" not in str(caught.value)


def _with_tensors(change):
    """Weights of a model, changed."""
    import io

    def replace(contents: bytes) -> bytes:
        state, file = torch.load(io.BytesIO(contents), weights_only=True), io.BytesIO()
        torch.save(change(state), file)
        return file.getvalue()

    return replace


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: [1, 2], "a dict of tensors"),
        (lambda state: {**state, "action_net.weight": torch.zeros(1).expand(10**9, 10**3)}, "a dense float32 tensor"),
        (lambda state: {**state, "action_net.bias": torch.tensor([float("nan")] * 4)}, "not all finite"),
        (lambda state: {**state, "extra.weight": torch.zeros(2)}, "weights that no policy here has: extra.weight"),
        (lambda state: {**state, "action_net.weight": torch.zeros(4)}, "should have weights and biases"),
        (lambda state: {k: v for k, v in state.items() if "net.0" not in k}, "do not fit observations"),
        (lambda state: {"other.weight": torch.zeros(2)}, "not a PPO, SAC, DQN or TD3"),
        (lambda state: {**state, 3: torch.zeros(2)}, "names of weights"),
    ],
)
def test_strange_weights(change, message, ppo, tmp_path):
    with pytest.raises(FileError, match=message):
        import_sb3(changed(ppo, tmp_path / "strange.zip", policy=_with_tensors(change)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy_class": {"__module__": "sb3_contrib.common.maskable.policies"}}, "a policy of its own .sb3_contrib"),
        ({"use_sde": True}, "use_sde=True"),
        ({"policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.Mish'>"}}, "activation .*Mish"),
        ({"policy_kwargs": {"features_extractor_class": "<class 'mine.Net'>"}}, "features extractor of its own"),
        (
            {"observation_space": {":type:": "<class 'x.Box'>", "_shape": [10**12], "dtype": "float32"}},
            "cannot be read",
        ),
        ({"action_space": None}, "action space is only there as a pickle"),
        ({"action_space": {":type:": "<class 'x.Discrete'>", "n": "4", "start": "1"}}, "start at 0"),
        ({"action_space": {":type:": "<class 'x.Discrete'>", "n": "5"}}, "do not fit observations"),
    ],
)
def test_strange_facts(change, message, ppo, tmp_path):
    def replace(contents: bytes) -> bytes:
        return json.dumps({**json.loads(contents), **change}).encode()

    with pytest.raises((FileError, OptionError), match=message):
        import_sb3(changed(ppo, tmp_path / "strange.zip", data=replace))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(ppo, tmp_path, capsys):
    folder = str(tmp_path / "agent")
    assert main(["import-sb3", str(ppo), "--output", folder]) == 0
    assert capsys.readouterr().out.strip() == folder
    assert rookery.load(folder).act(np.zeros((3, 5), np.float32)).shape == (3,)
    assert main(["import-sb3", str(ppo), "--output", folder]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["import-sb3", str(ppo), "--output", folder, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": folder}
