"""docs/gpu.md: its table of recipes is the code's."""

from __future__ import annotations

import json
import re

from docs.pages import PAGES
from rookery.worlds import known_recipes


def test_recipes_of_a_gpu_are_listed():
    table = re.search(r"<!-- gpu recipes: begin -->\n(.*?)<!-- gpu recipes: end -->", PAGES["docs/gpu.md"], re.DOTALL)
    assert table is not None and table.group(1) == recipes()


def recipes() -> str:
    """The table, to be pasted."""
    rows = ["| world | learner | envs | steps | options |\n|---|---|---|---|---|\n"]
    known = {name: by_learner for name, by_learner in known_recipes.ON_GPU.items()}
    for world, learners in {**known, "a kernel world without a recipe": {"ppo": known_recipes.USUAL_ON_GPU}}.items():
        for learner, recipe in learners.items():
            options = ", ".join(f"`{learner}.{key}={json.dumps(value)}`" for key, value in recipe[learner].items())
            rows.append(f"| {world} | {learner} | {recipe['num_envs']:,} | {recipe['steps']:,} | {options} |\n")
    return "".join(rows)
