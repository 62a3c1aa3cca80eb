"""docs/configuration.md, made of the fields' own sentences.

`python -m rookery.config.docs_page > docs/configuration.md` writes it anew; a test sees to it that this is done.
"""

from __future__ import annotations

from itertools import groupby

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rookery.config.curriculum_schema import Opponent, Phase, Shaping, Until, Variant
from rookery.config.fields import default_of, fields, in_words
from rookery.config.layers import OLD_NAMES
from rookery.config.schema import RunConfig

HEAD = """\
# Configuration

Every key of a run. Each can stand in a TOML, JSON or YAML file, follow `--set` on the command line, or be a keyword of
`rookery.train`: `[ppo]` with `clip = 0.1`, `--set ppo.clip=0.1`, `ppo={"clip": 0.1}`. Later ones win: defaults, then
what rookery knows to work for the world, then the file, then `--set`, then flags and keywords. Where no default is
shown, a key that is left out means what its sentence says. [How runs work](training.md); [the learners](learners.md).

This page is made by `python -m rookery.config.docs_page` from what the code itself says.
"""
PARTS: dict[str, type[BaseModel]] = {
    "`[[phases]]`": Phase,
    "`until`, in a phase": Until,
    "`opponents`, in a phase or the run": Opponent,
    "`mixture`, in a phase": Variant,
    "`shaping`, in a phase, by the name of an info": Shaping,
}
TABLE = "\n| key | holds | default | |\n|---|---|---|---|\n"


def page() -> str:
    """The whole page, as Markdown."""
    parts = [HEAD]
    for section, rows in groupby(fields().items(), key=lambda row: row[0].rpartition(".")[0]):
        parts.append(f"\n## {_title(section)}\n{TABLE}")
        parts += [_row(key, field) for key, field in rows]
    for title, model in PARTS.items():
        parts.append(f"\n## {title}\n\n{' '.join((model.__doc__ or '').split())}\n{TABLE}")
        parts += [_row(key, field) for key, field in model.model_fields.items()]
    parts.append("\n## Older names\n\nThese are understood as well.\n\n| older | today |\n|---|---|\n")
    parts += [f"| `{old}` | `{new}` |\n" for old, new in OLD_NAMES.items()]
    return "".join(parts)


def _title(section: str) -> str:
    if not section:
        return "The run"
    return f"`{section}`: {(RunConfig.model_fields[section].description or '').rstrip('.')}"


def _row(key: str, field: FieldInfo) -> str:
    default = default_of(field)
    shown = "must be given" if field.is_required() else f"`{default}`" if default else ""
    return f"| `{key}` | {in_words(field)} | {shown} | {field.description} |\n"


if __name__ == "__main__":
    print(page(), end="")
