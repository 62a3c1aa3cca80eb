"""The option names of Stable-Baselines3 and CleanRL: translated, or answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.configuration_page import names_tables
from rookery.config import build_config, collect_changes, collect_config, inputs
from rookery.config.fields import fields
from rookery.errors import ConfigError
from rookery.foreign_options import ANSWERS, OPTIONS, RUN_KEYS, SAME
from rookery.learners.registry import option_classes

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"


def given(*overrides: str, **keywords) -> dict:
    found = collect_config("a", overrides, **keywords)
    del found["world"]
    return found


def refusal(*overrides: str, **keywords) -> str:
    with pytest.raises(ConfigError) as caught:
        build_config("a", overrides, **keywords)
    return str(caught.value)


def test_every_name_means_a_key_that_exists():
    for learner, names in OPTIONS.items():
        known = option_classes()[learner].model_fields
        assert set(names.values()) <= set(known)
        assert not set(names) & set(known), "a name of an option of ours would never be translated"
    assert set(RUN_KEYS.values()) <= {*fields(), "world_options"}
    assert all(any(name in options.model_fields for options in option_classes().values()) for name in SAME)


def test_the_page_has_the_tables():
    """`python tests/docs/configuration_page.py names` prints them."""
    page = PAGE.read_text()
    assert all(table in page for table in names_tables().split("\n\n"))
    assert all(f"`{name}`" in page for name in (*SAME, *ANSWERS))


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("ppo.n_steps=512", {"ppo": {"rollout_length": 512}}),
        ("dqn.n_steps=5", {"dqn": {"n_step": 5}}),
        ("ppo.lr=1e-3", {"ppo": {"learning_rate": 1e-3}}),
        ("ppo.learning_rate=lin_3e-4", {"ppo": {"learning_rate": 3e-4, "learning_rate_schedule": "linear"}}),
        ("ppo.clip_range=lin_0.2", {"ppo": {"clip": 0.2, "clip_schedule": "linear"}}),
        ("ppo.anneal_lr=true", {"ppo": {"learning_rate_schedule": "linear"}}),
        ("ppo.anneal_lr=False", {"ppo": {"learning_rate_schedule": "constant"}}),
        ("sac.ent_coef=auto_0.1", {"sac": {"temperature": "auto", "temperature_start": 0.1}}),
        ("sac.ent_coef=0.2", {"sac": {"temperature": 0.2}}),
        ("sac.target_entropy=auto", {"sac": {"target_entropy": None}}),
        ("td3.net_arch={pi = [8], qf = [8]}", {"td3": {"hidden": [8]}}),
        ("ppo.net_arch=[{pi = [8, 8], vf = [8, 8]}]", {"ppo": {"hidden": [8, 8]}}),
        ("ppo.net_arch={pi = [8], vf = [16]}", {"ppo": {"hidden": [8], "critic_hidden": [16]}}),
        ("ppo.activation_fn=nn.ReLU", {"ppo": {"activation": "relu"}}),
        ("sac.gradient_steps=-1", {"sac": {"updates_per_step": 1.0, "updates_each": "step"}}),
        ("dqn.gradient_steps=2", {"dqn": {"updates_per_step": 0.5, "updates_each": "round"}}),
        ("dqn.train_frequency=10", {"dqn": {"updates_per_step": 0.1, "updates_each": "round"}}),
        ("capture_video=true", {"monitor": {"video": True}}),
        ("exp_name=mine", {"name": "mine"}),
    ],
)
def test_one_name(override, meant):
    assert given(override) == meant


def test_in_files_and_keywords_too(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('world = "a"\nlearner = "ppo"\nent_coef = 0.01\n[ppo]\nn_epochs = 3\n')
    assert build_config(file).ppo.model_dump(exclude_unset=True) == {"epochs": 3, "entropy": 0.01}
    policy_kwargs = {"net_arch": [8], "activation_fn": type("Tanh", (), {})}
    assert given(learner="sac", policy_kwargs=policy_kwargs)["sac"] == {"hidden": [8], "activation": "tanh"}
    assert given(ppo={"policy_kwargs": {"net_arch": [8]}, "clip_coef": 0.1})["ppo"] == {"hidden": [8], "clip": 0.1}
    assert collect_changes(["ppo.ent_coef=0.5"]) == {"ppo": {"entropy": 0.5}}


def test_without_a_section_it_is_of_every_learner_that_has_it():
    """As with `learning_rate`; only of the chosen one, if it is known."""
    assert given("buffer_size=5000") == {name: {"buffer_size": 5000} for name in ("sac", "dqn", "td3", "xqc")}
    assert given("n_steps=7") == {name: {"rollout_length": 7} for name in ("ppo", "pqn")} | {
        name: {"n_step": 7} for name in ("sac", "dqn", "td3", "xqc")
    }
    assert given("n_steps=7", learner="dqn") == {"learner": "dqn", "dqn": {"n_step": 7}}
    assert given("lr=0.1", "ppo.learning_rate=0.2")["ppo"] == {"learning_rate": 0.2}
    assert "sac has no such option" in refusal("n_epochs=3", learner="sac")


def test_names_that_depend_on_another_key():
    """Wherever that one is given."""
    assert given("dqn.train_freq=8", "dqn.gradient_steps=2")["dqn"] == {
        "updates_per_step": 0.25,
        "updates_each": "round",
    }
    assert given("exploration_fraction=0.1", total_timesteps=50_000)["dqn"] == {"epsilon_steps": 5_000}
    assert given("dqn.exploration_fraction=0.5", steps=1e4)["dqn"] == {"epsilon_steps": 5_000}
    assert "needs `steps`" in refusal("dqn.exploration_fraction=0.1")
    assert "`train_freq` should be a number" in refusal(dqn={"train_freq": (1, "episode")})


def test_of_a_phase():
    phases = [{"steps": 5, "learner": {"ent_coef": 0.1, "lr": 1e-4}}]
    found = build_config("a", learner="ppo", phases=phases)
    assert found.phases[0].learner == {"entropy": 0.1, "learning_rate": 1e-4}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_has_no_equal_is_answered(name):
    assert ANSWERS[name] in refusal(f"{name}=1")
    assert f"`ppo.{name}`" in refusal(f"ppo.{name}=1")


def test_mistakes():
    assert "give one of them" in refusal(ppo={"clip_coef": 0.2, "clip": 0.1})
    assert "did you mean `ppo.entropy`, `sac.temperature` or `xqc.temperature`?" in refusal("ent_cof=1")
    assert "`ppo.epochs` should be an integer" in refusal("n_epochs=x")
    assert "true or false" in refusal("anneal_lr=0.5")
    assert "should be a number" in refusal("ppo.lr=lin_fast")


def test_a_line_says_what_was_understood(monkeypatch):
    said = []
    monkeypatch.setattr(inputs, "say", said.append)
    build_config("a", ["ppo.n_steps=512", "gamma=0.9", "dqn.train_freq=2"])
    assert said == [
        "understood `ppo.n_steps` as `ppo.rollout_length`, `gamma` as the learner's `gamma`, `dqn.train_freq` "
        "as `dqn.updates_per_step` = 0.5 and `dqn.updates_each` = 'round'"
    ]
    build_config("a", ["ppo.gamma=0.9"], n_envs=3)
    assert len(said) == 1
