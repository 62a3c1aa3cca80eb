"""The curriculum files of older trainers: JSON with `curriculum`, `hyperparameters`, `training` and `agent`.

`from_json` translates one to a current configuration, `to_json` translates back if the old format has all options.
`from_grid` translates a file with lists of values, of which a search tries some.

>>> content = {"curriculum": {"phases": [{"name": "first", "episodes": 50, "opponent": {"type": "basic_weak"}}]}}
>>> from_json(content)["phases"]
[{'name': 'first', 'episodes': 50, 'options': {'mode': 'normal', 'keep_mode': True}, 'opponents': [{'who': 'weak'}]}]
"""

from __future__ import annotations

from rookery.config.curriculum_json.from_json import from_json, is_curriculum
from rookery.config.curriculum_json.grid_file import from_grid, is_grid
from rookery.config.curriculum_json.to_json import to_json

__all__ = ["from_grid", "from_json", "is_curriculum", "is_grid", "to_json"]
