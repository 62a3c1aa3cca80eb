"""The card of an agent: what the run's files say, and nothing else."""

from __future__ import annotations

import json

import pytest
import yaml

from rookery.cli.main import main
from rookery.errors import OptionError
from rookery.training.export.agent_card import card_text, export_card
from training.finished import make_run

EVALUATIONS = [
    {"kind": "evaluation", "step": 100, "time": 1.0, "eval/return": 31.25, "eval/return_std": 2.5, "eval/episodes": 8},
    {"kind": "evaluation", "step": 200, "time": 2.0, "eval/return": 20.0, "eval/return_std": 1.0, "eval/episodes": 8},
]


@pytest.fixture
def run(tmp_path):
    made = make_run(tmp_path)
    made.evaluations.write_text("".join(json.dumps(line) + "\n" for line in EVALUATIONS))
    return made


def test_what_is_on_it(run):
    text = card_text(run)
    matter = yaml.safe_load(text.split("---")[1])
    (result,) = matter["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == "31.25 +/- 2.50"  # of the agent that is loaded
    assert matter["tags"][:2] == ["CartPole-v1", "ppo"]
    assert "| last | 200 | 8 | 20.00 ± 1.00 |" in text and "| best | 100 | 8 | 31.25 ± 2.50 |" in text
    settings = json.loads(text.split("```json\n")[1].split("```")[0])
    assert settings["ppo"]["gamma"] == run.read_config()["ppo"]["gamma"]


def test_the_best_is_the_evaluation_that_chose_the_checkpoint(run):
    """A later one with a higher mean, but not by more than noise, chose nothing."""
    lines = [EVALUATIONS[1] | {"eval/best": True}, EVALUATIONS[0] | {"step": 300, "eval/best": False}]
    run.evaluations.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "| best | 200 | 8 | 20.00 ± 1.00 |" in card_text(run)


def test_a_run_that_was_not_evaluated(tmp_path):
    text = card_text(make_run(tmp_path))
    assert "The run was not evaluated." in text and "model-index" not in text and "mean_reward" not in text


def test_texts_of_a_run_are_never_html(run):
    run.write_config({**run.read_config(), "world": "<script>alert(1)"})
    title = next(line for line in card_text(run).splitlines() if line.startswith("# "))
    assert title == "# PPO in &lt;script&gt;alert(1)"


def test_the_file(run, tmp_path, capsys):
    with pytest.raises(OptionError, match=r"end in \.md"):
        export_card(run, tmp_path / "card.txt")
    words = ["export", str(run.path), "--card", str(tmp_path / "card.md")]
    assert main(words) == 0 and (tmp_path / "card.md").read_text() == card_text(run)
    assert main(words) == 2 and "--force" in capsys.readouterr().err
