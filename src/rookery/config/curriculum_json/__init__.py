"""The curriculum files of older trainers: JSON with `curriculum`, `hyperparameters`, `training` and `agent`.

`from_json` turns one into a configuration of today, `to_json` goes the other way as far as that can be said there.

>>> content = {"curriculum": {"phases": [{"name": "first", "episodes": 50, "opponent": {"type": "basic_weak"}}]}}
>>> from_json(content)["phases"]
[{'name': 'first', 'episodes': 50, 'options': {'mode': 'normal', 'keep_mode': True}, 'opponents': [{'who': 'weak'}]}]
"""

from __future__ import annotations

from rookery.config.curriculum_json.from_json import from_json, is_curriculum
from rookery.config.curriculum_json.to_json import to_json

__all__ = ["from_json", "is_curriculum", "to_json"]
