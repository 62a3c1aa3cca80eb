"""Runs with one planted difference. Callbacks are written to files, so that a run that is played again has them too."""

from __future__ import annotations

from pathlib import Path

BIT = """
import numpy as np, torch, rookery
class Bit(rookery.Callback):
    def on_update(self, run, metrics):
        if run.learner.updates == {update}:
            with torch.no_grad():
                array = run.learner.policy.state_dict()["{layer}"].numpy().reshape(-1).view(np.int32)
                array[{place}] ^= 1
            run.learner.accelerator.invalidate()
"""
ACTION = """
import rookery
class Action(rookery.Callback):
    def on_start(self, run):
        explore = run.learner.explore
        def changed(observations, rows, mask=None):
            actions = explore(observations, rows, mask)
            if run.step == {step}:
                actions = actions.copy()
                actions[{env}] = 1 - actions[{env}]
            return actions
        run.learner.__dict__["explore"] = changed
"""
RATE = """
import rookery
class Rate(rookery.Callback):
    def on_update(self, run, metrics):
        if run.learner.updates in ({update} - 1, {update}):
            rate = run.config.learner_options.learning_rate
            run.set_options(learning_rate=rate * ({factor} if run.learner.updates == {update} - 1 else 1))
"""
SIGN = """
import torch, rookery
class Sign(rookery.Callback):
    def on_update(self, run, metrics):
        if run.learner.updates == {update}:
            with torch.no_grad():
                run.learner.policy.actor.layers[-1].weight.mul_(-1.0)
            run.learner.accelerator.invalidate()
"""


def planted_file(folder: Path, name: str, template: str, **values: object) -> str:
    """A callback in a file of its own, by its name in a configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(template.format(**values))
    kind = template.partition("class ")[2].partition("(")[0]
    return f"{path}:{kind}"
