"""Grid files of older trainers become the space of a search."""

import json

import pytest

from rookery.config import build_config
from rookery.errors import ConfigError
from rookery.studies.space.space import SearchSpace

GRID = {
    "hyperparameters": {"learning_rate": [1e-4, 5e-4], "batch_size": [256, 512, 1024]},
    "training": {"max_episode_steps": 500, "updates_per_step": 1, "warmup_steps": 1000, "reward_scale": 0.5},
    "agent": {
        "type": "DDDQN",
        "hyperparameters": {
            "hidden_dim": [[256, 256], [64]], "eps": [1, 0.5],
            "action_fineness": [3, 5], "use_huber_loss": [True, False],
        },
    },
}  # fmt: skip


def changed(**agent):
    content = json.loads(json.dumps(GRID))
    content["agent"]["hyperparameters"] |= agent
    return content


def test_lists_become_choices_under_current_names(tmp_path):
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(GRID))
    config = build_config(str(file))
    assert (config.world, config.learner, config.episode_length, config.reward_scale) == ("hockey", "dqn", 500, 0.5)
    assert config.search.space == {
        "dqn.learning_rate": {"choice": [1e-4, 5e-4]},
        "dqn.batch_size": {"choice": [256, 512, 1024]},
        "dqn.hidden": {"choice": [[256, 256], [64]]},
        "dqn.epsilon_start": {"choice": [1.0, 0.5]},
        "world_options.action_fineness": {"choice": [3, 5]},
        "dqn.loss": {"choice": ["huber", "squared"]},
    }
    assert config.dqn.hidden == [256, 256] and config.world_options["action_fineness"] == 3
    assert SearchSpace.of(config).size == 2 * 3 * 2 * 2 * 2 * 2


def test_a_list_of_widths_is_one_value():
    assert "dqn.hidden" not in build_config(changed(hidden_dim=[256, 256])).search.space


def test_a_grid_beside_a_curriculum_keeps_its_phases():
    phases = [{"name": "first", "episodes": 50, "opponent": {"type": "basic_weak"}}]
    config = build_config({**GRID, "curriculum": {"phases": phases}})
    assert len(config.phases) == 1 and "dqn.batch_size" in config.search.space


@pytest.mark.parametrize(
    ("agent", "message"), [({"eps": []}, "empty list"), ({"epsilon": [1, 2]}, "epsilon"), ({"eps": [0.5, -1]}, "eps")]
)
def test_what_is_wrong_is_named(agent, message):
    with pytest.raises(ConfigError, match=message):
        build_config(changed(**agent))


@pytest.mark.slow
def test_the_file_that_people_have(request):
    config = build_config(request.config.rootpath / "tests" / "data" / "curricula" / "hyperparameter_base.json")
    assert SearchSpace.of(config).size == 4 * 4 * 7 * 4 * 4 * 3 * 4 * 4
