"""The configuration: files, layers, names old and new, and what is said about mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rookery.config import (
    RunConfig,
    build_config,
    check,
    collect_config,
    fields_help,
    is_config,
    merge,
    parse_override,
    read_config,
    rename_old_keys,
    resolve,
    validation,
    with_recipe,
)
from rookery.errors import ConfigError, OptionError
from rookery.learners.registry import PPOOptions

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.*"))


def refusal(call, *args, **kwargs) -> str:
    """The message of the ConfigError that a call must raise."""
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# --- layers -------------------------------------------------------------------------------------------------------


def test_given_beats_recipe_beats_default():
    """Each layer decides only the keys that it holds."""
    config = resolve({"world": "a", "ppo": {"clip": 0.1}}, {"steps": 7, "ppo": {"clip": 0.3, "epochs": 9}})
    assert (config.steps, config.ppo.clip, config.ppo.epochs, config.ppo.minibatches) == (7, 0.1, 9, 4)


def test_what_the_user_gave_is_validated_once(monkeypatch):
    """From several parts, and with a recipe laid under it; the keys that were given can be told from the others."""
    validated = []
    monkeypatch.setattr(validation, "check_size", lambda given, where: validated.append(dict(given)))
    config = build_config({"world": "a", "seed": 3}, ["ppo.clip=0.1"], steps=100, num_envs=None)
    assert [given.get("seed") for given in validated] == [3]
    joined = with_recipe(config, {"num_envs": 8, "steps": 5, "ppo": {"clip": 0.2, "epochs": 9}})
    assert [given.get("seed") for given in validated] == [3, None]
    assert (joined.num_envs, joined.steps, joined.ppo.clip, joined.ppo.epochs) == (8, 100, 0.1, 9)
    assert "steps" in config.model_fields_set and "backend" not in config.model_fields_set
    assert "groups" in refusal(with_recipe, build_config("a", groups=2), {"num_envs": 1})


def test_minibatches_that_the_user_gave_are_not_replaced_by_a_recipe():
    """`batch_size` replaces `minibatches`, but only where both were given by the same."""
    recipe = {"ppo": {"batch_size": 64}}
    assert with_recipe(build_config("a"), recipe).ppo.batch_size == 64
    assert with_recipe(build_config("a", ppo={"minibatches": 8}), recipe).ppo.batch_size is None
    assert with_recipe(build_config("a", ppo={"minibatches": 8, "batch_size": 32}), recipe).ppo.batch_size == 32


@pytest.mark.parametrize("keywords", [{"steps": "x"}, {"learning_rate": 1e-3, "ppo": 5}, {"learning_rate": "x"}])
def test_an_invalid_part_is_named_the_same_way(keywords):
    """Whether a configuration or only its keys are requested."""
    assert refusal(build_config, "a", **keywords) == refusal(collect_config, "a", **keywords)


def test_file_then_set_then_keywords(tmp_path):
    """The later layer wins."""
    file = tmp_path / "run.toml"
    file.write_text('world = "a"\nsteps = 1\nseed = 1\nname = "file"')
    given = collect_config(file, ["steps=2", "seed=2"], seed=3)
    assert given == {"world": "a", "steps": 2, "seed": 3, "name": "file"}


def test_the_layers_are_left_as_they_were():
    """Merging changes neither its arguments nor the defaults."""
    below, above = {"ppo": {"hidden": [1]}}, {"ppo": {"clip": 0.1}}
    merged = merge(below, above)
    merged["ppo"]["hidden"].append(2)
    assert (below, above) == ({"ppo": {"hidden": [1]}}, {"ppo": {"clip": 0.1}})
    assert RunConfig(world="a").ppo is not RunConfig(world="a").ppo


@pytest.mark.parametrize(
    ("layers", "rate"),
    [
        ([{"learning_rate": 1e-3}], 1e-3),
        ([{"ppo": {"learning_rate": 1e-4}}, {"learning_rate": 1e-3}], 1e-3),
        ([{"learning_rate": 1e-3}, {"ppo": {"learning_rate": 1e-4}}], 1e-4),
        ([{"learning_rate": 1e-3}, {"sac": {"learning_rate": 1e-4}}], 1e-3),
        ([{"ppo": {"learning_rate": 1e-4}}, {"learning_rate": None}], 1e-4),
    ],
)
def test_the_later_learning_rate_wins_by_either_name(layers, rate):
    """`learning_rate` is short for the chosen learner's."""
    assert resolve(merge({"world": "a"}, *layers)).ppo.learning_rate == rate


def test_a_resolved_config_survives_being_written_and_read():
    """What a run records is a configuration again."""
    config = resolve({"world": "a", "learning_rate": 1e-3, "num_envs": 8, "groups": 2})
    assert resolve(config.model_dump(mode="json")) == config


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        ("steps=1e5", {"steps": 1e5}),
        ("steps=100_000", {"steps": 100_000}),
        ("ppo.hidden=[64,64]", {"ppo": {"hidden": [64, 64]}}),
        ("ppo.clip=.5", {"ppo": {"clip": 0.5}}),
        ("ppo.clip = 0.5", {"ppo": {"clip": 0.5}}),
        ("compiled=False", {"compiled": False}),
        ("name=2024-01-01", {"name": "2024-01-01"}),
        ("world=my env.py:A=B", {"world": "my env.py:A=B"}),
        ("world_options.mode='shooting'", {"world_options": {"mode": "shooting"}}),
        ("name=", {"name": ""}),
    ],
)
def test_overrides_are_toml_or_text(text, nested):
    """A value is read as TOML; what is none of TOML's is text."""
    assert parse_override(text) == nested


@pytest.mark.parametrize("text", ["steps", "=3", "ppo.=3", ".clip=3", ""])
def test_an_override_without_key_or_value_is_refused(text):
    """The message shows how one looks."""
    assert "should be KEY=VALUE" in refusal(parse_override, text)


@pytest.mark.parametrize("number", [100_000, 1e5, np.int64(100_000), np.float32(1e5)])
def test_whole_numbers_may_be_written_as_any_number(number):
    """1e5 steps are 100,000 steps, and NumPy's numbers are numbers."""
    assert collect_config("a", steps=number)["steps"] == 100_000
    assert type(collect_config("a", steps=number)["steps"]) is int


def test_none_undoes_what_a_recipe_says():
    """TOML has no word for nothing, so that "none" is one, except where text is wanted."""
    config = resolve(
        collect_config("a", ["ppo.target_kl=none", "world_options.opponent=none"]), {"ppo": {"target_kl": 0.1}}
    )
    assert config.ppo.target_kl is None
    assert config.world_options == {"opponent": "none"}


def test_python_values_of_other_types_are_taken(tmp_path):
    """Paths, tuples, option objects and devices are what they look like."""
    device = type("device", (), {"__str__": lambda self: "cuda:1"})()  # as torch.device
    given = collect_config("a", runs_dir=tmp_path, device=device, ppo=PPOOptions(hidden=[8]), sac={"hidden": (8, 8)})
    assert given["runs_dir"] == str(tmp_path)
    assert given["device"] == "cuda:1"
    assert given["ppo"] == {"hidden": [8]}
    assert given["sac"] == {"hidden": [8, 8]}


# --- names --------------------------------------------------------------------------------------------------------


def test_old_names_live_on():
    """What older trainers called things works as keywords and in files."""
    old = {
        "n_envs": 4, "total_timesteps": 10, "num_episodes": 3, "gpu": 1, "parallel_start_method": "fork",
        "base_output_dir": "out", "checkpoint_dir": "kept", "eval_freq_steps": 5, "eval_num_games": 6,
    }  # fmt: skip
    config = resolve(collect_config({"world": "a", **old}))
    assert config == resolve(collect_config("a", **old))
    assert (config.num_envs, config.steps, config.episodes, config.device) == (4, 10, 3, "cuda:1")
    assert (config.start_method, config.runs_dir, config.checkpoints.dir) == ("fork", "out", "kept")
    assert (config.evaluation.every, config.evaluation.episodes) == (5, 6)


def test_keys_that_were_renamed_are_still_read(tmp_path):
    """From keywords, --set and files, also those of a section."""
    (tmp_path / "old.toml").write_text('world = "a"\ntwin = false\nsearch = {workers = 3}\n')
    for given in (
        collect_config("a", twin=False, search={"workers": 3}),
        collect_config("a", ["twin=false", "search.workers=3"]),
        collect_config(tmp_path / "old.toml"),
    ):
        assert given == {"world": "a", "compiled": False, "search": {"jobs": 3}}
    assert "two names of one option" in refusal(collect_config, "a", search={"workers": 3, "jobs": 4})


def test_old_words_about_evaluation():
    """Opponents as a list or with commas; the flag for the weak one adds it."""
    assert rename_old_keys({"eval_opponents": "weak, strong"}) == {"evaluation": {"opponents": ["weak", "strong"]}}
    assert rename_old_keys({"eval_weak_opponent": True}) == {"evaluation": {"opponents": ["weak"]}}
    assert rename_old_keys({"eval_weak_opponent": False}) == {"evaluation": {"opponents": ["strong"]}}
    both = {"eval_weak_opponent": True, "eval_opponents": ["strong", "a.py:A"]}
    assert rename_old_keys(both) == {"evaluation": {"opponents": ["strong", "a.py:A", "weak"]}}
    assert resolve(collect_config("a", ["evaluation.opponents=weak,strong"])).evaluation.opponents == ["weak", "strong"]
    assert "`eval_weak_opponent` should be true or false, got 'yes'" in refusal(
        collect_config, "a", eval_weak_opponent="yes"
    )
    assert collect_config("a", run_name="mine", verbose=False) == {
        "world": "a",
        "name": "mine",
        "monitor": {"verbose": False},
    }
    assert collect_config("a", verbose=True)["monitor"] == {"verbose": True}
    assert [collect_config("a", verbose=level)["monitor"]["verbose"] for level in (0, 1, 2)] == [False, True, True]
    assert "`monitor.verbose`" in refusal(collect_config, "a", verbose="loud")


def test_a_device_by_its_number_and_the_default_start_method():
    """As in Python, in files and on the command line."""
    assert [collect_config("a", device=device)["device"] for device in (1, "0", "cpu")] == ["cuda:1", "cuda:0", "cpu"]
    assert "`device` should be" in refusal(collect_config, "a", device=-1)
    assert resolve(collect_config("a", parallel_start_method="default")).start_method is None
    assert resolve(collect_config({"world": "a", "start_method": "fork"}, start_method="default")).start_method is None


def test_two_names_of_one_option_must_agree():
    """Both names are in the message, whichever they are."""
    assert rename_old_keys({"num_envs": 4, "n_envs": 4}) == {"num_envs": 4}
    assert "`n_envs` = 4 and `num_envs` = 8 are two names" in refusal(rename_old_keys, {"num_envs": 8, "n_envs": 4})
    assert "`total_steps` = 2 and `total_timesteps` = 1" in refusal(
        rename_old_keys, {"total_timesteps": 1, "total_steps": 2}
    )
    assert "`gpu` = 0 and `device` = 'cpu'" in refusal(collect_config, "a", gpu=0, device="cpu")
    message = refusal(collect_config, "a", learning_rate=1e-3, ppo={"learning_rate": 1e-4})
    assert "`learning_rate` = 0.001 and `ppo.learning_rate` = 0.0001" in message
    assert collect_config("a", learner="sac", learning_rate=1e-3, ppo={"learning_rate": 1e-4})


def test_none_envs_means_find_out():
    """`n_envs=None` asks for measuring, over what a file says; None elsewhere is as if not given."""
    assert collect_config({"world": "a", "num_envs": 8, "device": "cpu"}, n_envs=None, device=None) == {
        "world": "a", "num_envs": "auto", "device": "cpu",
    }  # fmt: skip


def test_keys_may_be_written_with_dots():
    """{"ppo.clip": 0.1} is the same as {"ppo": {"clip": 0.1}}."""
    assert collect_config({"world": "a", "ppo.clip": 0.1, "ppo": {"epochs": 2}})["ppo"] == {"clip": 0.1, "epochs": 2}


def test_a_compiled_version_is_taken_only_where_it_can_serve():
    """Who asks for processes gets the world that they would step."""
    assert resolve({"world": "a"}).takes_compiled
    for wish in ({"compiled": False}, {"backend": "process"}, {"num_envs": "adaptive"}, {"step_timeout": 3}):
        assert not resolve({"world": "a", **wish}).takes_compiled


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", 'world = "a"\nsteps = 1e5\n[ppo]\nlearning_rate = 3e-4\nhidden = [8]'),
        ("a.json", '{"world": "a", "steps": 1e5, "ppo": {"learning_rate": 3e-4, "hidden": [8]}}'),
        ("a.yaml", "world: a\nsteps: 1e5\nppo:\n  learning_rate: 3e-4\n  hidden: [8]"),
        ("A.YML", "\ufeffworld: a\nsteps: 1e5\nppo: {learning_rate: 3e-4, hidden: [8]}"),
    ],
)
def test_the_same_in_every_language(tmp_path, name, text):
    """TOML, JSON and YAML hold the same configuration; 1e5 is a number in all of them."""
    file = tmp_path / name
    file.write_text(text)
    assert resolve(collect_config(file)) == resolve(
        {"world": "a", "steps": 10**5, "ppo": {"learning_rate": 3e-4, "hidden": [8]}}
    )


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_examples_are_valid(path):
    """Every file in configs/ can be used."""
    assert resolve(collect_config(path)).world


def test_what_is_a_config_and_what_a_world(tmp_path):
    """By the suffix, or because there is such a file; never a Python file."""
    (tmp_path / "x.ini").write_text("")
    (tmp_path / "x.py").write_text("")
    assert is_config("nowhere.toml") and is_config("UPPER.JSON") and is_config(str(tmp_path / "x.ini"))
    assert not any(map(is_config, ("CartPole-v1", "x.py:A", str(tmp_path / "x.py"), str(tmp_path), "x.ini")))


def test_an_empty_section_is_none(tmp_path):
    """As it is left when all of its keys are made comments."""
    file = tmp_path / "a.yaml"
    file.write_text("world: a\nlearning_rate: 1e-3\nppo:\n#  clip: 0.1")
    assert resolve(collect_config(file)).ppo == PPOOptions(learning_rate=1e-3)


def test_values_in_yaml_cannot_run_anything(tmp_path):
    """Tags that would build Python objects are rejected."""
    file = tmp_path / "a.yaml"
    file.write_text("world: !!python/object/apply:os.system [true]")
    assert "a.yaml: is not valid YAML" in refusal(read_config, file)


# --- mistakes -----------------------------------------------------------------------------------------------------


def test_all_mistakes_are_told_at_once():
    """One error, a line for each wrong key; it is also a ValueError and an OptionError."""
    with pytest.raises(ValueError) as caught:
        check({"num_envs": 0, "ppo": {"clip": -1, "epoch": 3}}, where="run.toml")
    assert isinstance(caught.value, OptionError)
    lines = str(caught.value).splitlines()
    assert lines[0] == "run.toml: 4 problems"
    assert sorted(line.split("`")[1] for line in lines[1:]) == ["num_envs", "ppo.clip", "ppo.epoch", "world"]


def test_a_part_needs_no_world():
    """What is given is checked as it will be, but for what is missing."""
    check({"steps": 5}, complete=False)
    assert "`steps`" in refusal(check, {"steps": -5}, complete=False)
    assert "`world` is missing" in refusal(check, {"steps": 5})


def test_the_mistake_is_told_with_the_layer_it_came_from(tmp_path):
    """A file by its name, an override as it was typed."""
    file = tmp_path / "run.toml"
    file.write_text('world = "a"\nstep = 1')
    assert refusal(collect_config, file) == f"{file}: unknown key `step`; did you mean `steps`?"
    assert refusal(collect_config, "a", ["ppo.clip=-1"]).startswith("--set ppo.clip=-1: `ppo.clip` should be")


def test_suggestions_search_all_sections():
    """With the full path, and of the learners' sections the chosen one's."""
    assert "did you mean `sac.gamma`?" in refusal(check, {"world": "a", "learner": "sac", "gama": 0.9})
    everywhere = refusal(check, {"world": "a", "lerning_rate": 0.9})
    assert "`learning_rate`, `ppo.learning_rate`" in everywhere
    assert "did you mean `ppo.clip`?" in refusal(check, {"world": "a", "clip": 0.9})
    assert "did you mean `evaluation`" in refusal(check, {"world": "a", "eval": {"every": 3}})
    assert "did you mean `evaluation.every`?" in refusal(check, {"world": "a", "eval_freq_step": 3})
    assert "did you mean `checkpoints.every`?" in refusal(check, {"world": "a", "checkpoints": {"evry": 3}})


def test_a_long_value_is_cut():
    """A mistake is told in a line, not a page."""
    assert len(refusal(check, {"world": "a", "seed": "x" * 10_000})) < 200


def test_sections_of_other_learners_may_stay():
    """To switch learners is to change one key."""
    check({"world": "a", "learner": "sac", "ppo": {"clip": 0.1}, "dqn": {"n_step": 1}})


# --- help ---------------------------------------------------------------------------------------------------------


def test_every_key_has_a_sentence():
    """Which is its help on the command line."""
    rows = fields_help()
    assert {"world", "ppo.clip", "sac.noise", "dqn.double", "evaluation.stop_at"} <= {key for key, *_ in rows}
    for key, valid, _, sentence in rows:
        assert sentence.endswith(".") and sentence[0].isupper(), key
        assert valid, key


def test_importing_it_loads_nothing_heavy():
    """Neither torch nor any compiler nor a YAML reader."""
    code = "import sys, rookery.config; print({'torch', 'numba', 'yaml', 'rich', 'matplotlib'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("ppo.hidden=[64, 0]", "`ppo.hidden` should be a list of integers >= 1, got [64, 0]"),
        ("learning_rate=1e400", "`learning_rate` should be a finite number > 0, got inf"),
        ("ppo.clip=nan", "`ppo.clip` should be a finite number > 0, got nan"),
        ("ppo.clip=-1.0", "`ppo.clip` should be a number > 0, got -1.0"),
    ],
)
def test_limits_of_items_and_of_numbers_are_said(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        collect_config("CartPole-v1", [override])
    assert message in str(raised.value)
