"""Air hockey for two: the table, its physics and its rules, as functions of one env."""

from typing import Any


def replay(rows: Any) -> dict[str, Any]:
    """Steps recorded rows in our world; see `rookery.worlds.hockey.fidelity.replay`."""
    from rookery.worlds.hockey.fidelity import replay as replay_rows

    return replay_rows(rows)
