"""What the `data` commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rookery.console import say

if TYPE_CHECKING:
    from rookery.data.dataset import Dataset


def print_dataset(data: Dataset, as_json: bool, notes: list[str]) -> None:
    """What the bars hold; notes go to standard error."""
    from rookery import printing
    from rookery.data.summary import summary

    facts = summary(data)
    if as_json:
        printing.emit_json(facts | {"notes": notes})
        return
    for note in notes:
        say(note)
    _print_summary(facts)


def _print_summary(facts: dict[str, Any]) -> None:
    from rookery import printing

    out = printing.console()
    one = ", one price per row" if facts["one_price"] else ""
    title = f"{facts['place']}: bars of {facts['timeframe']}, calendar {facts['calendar']}{one}"
    table = printing.table(title, "symbol", "bars>", "first complete", "last complete", "gaps>", "missing bars>")
    for row in facts["symbols"]:
        table.add_row(
            row["symbol"], f"{row['bars']:,}", row["first"], row["last"], f"{row['gaps']:,}", f"{row['missing']:,}"
        )
    printing.print_table(out, table)
    out.print(f"columns: {', '.join(facts['columns'])}", soft_wrap=True)
    out.print(f"hash: {facts['hash']}", soft_wrap=True)
    for entry in facts["history"]:
        more = ", ".join(f"{key} {value}" for key, value in entry.items() if key not in ("command", "source"))
        out.print(
            f"history: {entry.get('command')} (from {entry.get('source')}{', ' if more else ''}{more})", soft_wrap=True
        )


def print_problems(found: list[Any], place: str, errors: int, as_json: bool) -> None:
    """Every problem in a line."""
    from rookery import printing
    from rookery.data.summary import problem_values

    if as_json:
        values = [problem_values(problem) for problem in found]
        printing.emit_json({"place": place, "ok": errors == 0, "errors": errors, "problems": values})
        return
    out = printing.console()
    for problem in found:
        out.print(f"{problem.severity}: {problem}", soft_wrap=True)
    out.print(f"{place}: {errors} errors, {len(found) - errors} notes", soft_wrap=True)
