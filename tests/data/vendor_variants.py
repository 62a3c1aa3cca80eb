"""Forty ways in which files of bars arrive broken, or only look so: each takes the text of a vendor's file and its
separator, and returns the name and the bytes of another file."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable

Variant = Callable[[str, str], "tuple[str, bytes]"]
NUMBER = re.compile(r"(?<![\d.])(\d+)\.(\d+)(?![\d.])")


def rows_of(text: str, separator: str) -> tuple[list[str], list[list[str]]]:
    """The lines above the bars, and the fields of each bar."""
    lines = text.rstrip("\n").splitlines()
    first = next(k for k, line in enumerate(lines) if len(prices(line.split(separator))) >= 4)
    return lines[:first], [line.split(separator) for line in lines[first:]]


def prices(fields: list[str]) -> list[int]:
    """The places of open, high, low and close: the first decimal numbers."""
    return [k for k, field in enumerate(fields) if re.fullmatch(r"\d+\.\d+", field)][:4]


def joined(head: list[str], rows: list[list[str]], separator: str) -> bytes:
    return ("\n".join([*head, *(separator.join(row) for row in rows)]) + "\n").encode()


def by_rows(change: Callable[[list[list[str]]], list[list[str]]]) -> Variant:
    def variant(text: str, separator: str) -> tuple[str, bytes]:
        head, rows = rows_of(text, separator)
        return "f.csv", joined(head, change(rows), separator)

    return variant


def by_price(change: Callable[[str], str], row: int | None = None, places: slice = slice(None)) -> Variant:
    """Prices of one row, or of all rows, written in another way."""

    def change_rows(rows: list[list[str]]) -> list[list[str]]:
        for fields in rows if row is None else [rows[row]]:
            for place in prices(fields)[places]:
                fields[place] = change(fields[place])
        return rows

    return by_rows(change_rows)


def by_bytes(change: Callable[[bytes], bytes], name: str = "f.csv") -> Variant:
    return lambda text, separator: (name, change(text.encode()))


def zipped(*names: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, content)
        return made.getvalue()

    return change


def with_thousands(number: str) -> str:
    whole, _, part = number.partition(".")
    return f'"{int(whole):,}.{part}"'


def swapped(first: int, second: int) -> Variant:
    def change(rows: list[list[str]]) -> list[list[str]]:
        for fields in rows:
            places = prices(fields)
            fields[places[first]], fields[places[second]] = fields[places[second]], fields[places[first]]
        return rows

    return by_rows(change)


def same_close(rows: list[list[str]]) -> list[list[str]]:
    """A bar of another symbol between those of this one: the same time, other prices."""
    other = list(rows[5])
    for place in prices(other):
        other[place] = str(round(float(other[place]) * 3.7, 4))
    return [*rows[:6], other, *rows[6:]]


def second_header(text: str, separator: str) -> tuple[str, bytes]:
    head, rows = rows_of(text, separator)
    again = [line.split(separator) for line in head[-1:]]
    return "f.csv", joined(head, [*rows[:6], *again, *rows[6:]], separator)


def decimal_commas(text: str, separator: str) -> tuple[str, bytes]:
    head, rows = rows_of(text, separator)
    lines = [";".join(NUMBER.sub(r"\1,\2", field) for field in row) for row in rows]
    return "f.csv", ("\n".join([*(line.replace(separator, ";") for line in head), *lines]) + "\n").encode()


def mixed_zones(text: str, separator: str) -> tuple[str, bytes]:
    head, rows = rows_of(text, separator)
    for k, fields in enumerate(rows):
        days = [i for i, field in enumerate(fields) if re.match(r"\d{2,4}[-./]\d\d[-./]\d", field)]
        place = days[0] if days else next(i for i, field in enumerate(fields) if re.match(r"\d{8,}", field))
        if "+" not in fields[place] and len(fields[place]) >= 10:
            fields[place] += "Z" if k % 2 else "+03:00"
        elif "+" in fields[place] and k % 2:
            fields[place] = fields[place].replace("+00:00", "+03:00")
    return "f.csv", joined(head, rows, separator)


SAME, ERROR, EITHER = "read the same", "an error", "read the same or an error"
VARIANTS: dict[str, tuple[Variant, str]] = {
    # What only looks broken.
    "byte order mark": (by_bytes(lambda text: b"\xef\xbb\xbf" + text), SAME),
    "UTF-16": (by_bytes(lambda text: text.decode().encode("utf-16")), SAME),
    "UTF-16 without a mark": (by_bytes(lambda text: text.decode().encode("utf-16-le")), SAME),
    "lines of Windows": (by_bytes(lambda text: text.replace(b"\n", b"\r\n")), SAME),
    "lines of an old Mac": (by_bytes(lambda text: text.replace(b"\n", b"\r")), SAME),
    "gzip": (by_bytes(gzip.compress, "f.csv.gz"), SAME),
    "gzip called csv": (by_bytes(gzip.compress), SAME),
    "zip": (by_bytes(zipped("f.csv"), "f.zip"), SAME),
    "blank lines": (by_bytes(lambda text: text.replace(b"\n", b"\n\n") + b"\n\n"), EITHER),
    "spaces around fields": (by_rows(lambda rows: [[f" {field} " for field in row] for row in rows]), EITHER),
    "quotes around fields": (by_rows(lambda rows: [[f'"{field}"' for field in row] for row in rows]), SAME),
    "newest first": (by_rows(lambda rows: rows[::-1]), SAME),
    "thousands separators": (by_price(with_thousands), EITHER),
    "a currency": (by_price(lambda number: f"${number}"), EITHER),
    "scientific numbers": (by_price(lambda number: f"{float(number):.9e}"), SAME),
    "zeros at the end": (by_price(lambda number: f"{number}000"), SAME),
    # What cannot be read.
    "decimal commas": (decimal_commas, ERROR),
    "cut in a line": (by_rows(lambda rows: [*rows[:-1], rows[-1][: prices(rows[-1])[2]]]), ERROR),
    "cut in a number": (by_rows(lambda rows: [*rows[:-1], [*rows[-1][: prices(rows[-1])[3]], "0"]]), ERROR),
    "cut archive": (by_bytes(lambda text: gzip.compress(text)[:-20], "f.csv.gz"), ERROR),
    "two tables in an archive": (by_bytes(zipped("a.csv", "b.csv"), "f.zip"), ERROR),
    "a line with more fields": (by_rows(lambda rows: [*rows[:4], [*rows[4], "1", "2"], *rows[5:]]), ERROR),
    "high and low swapped": (swapped(1, 2), ERROR),
    "open and high swapped": (swapped(0, 1), ERROR),
    "low and close swapped": (swapped(2, 3), ERROR),
    "the last row twice": (by_rows(lambda rows: [*rows, rows[-1]]), ERROR),
    "every row twice": (by_rows(lambda rows: [row for row in rows for _ in (0, 1)]), ERROR),
    "another symbol's row": (by_rows(same_close), ERROR),
    "header twice": (second_header, EITHER),
    "mixed time zones": (mixed_zones, ERROR),
    "a row at another place": (by_rows(lambda rows: [*rows[:2], rows[7], *rows[2:7], *rows[8:]]), ERROR),
    "a negative price": (by_price(lambda number: f"-{number}", 5, slice(3, 4)), ERROR),
    "all prices negative": (by_price(lambda number: f"-{number}"), ERROR),
    "a price of zero": (by_price(lambda number: "0.0", 5), ERROR),
    "a price times a million": (by_price(lambda number: number.replace(".", "") + "000", 5), ERROR),
    "a missing price": (by_price(lambda number: "", 5, slice(0, 1)), ERROR),
    "a text for a price": (by_price(lambda number: "#N/A", 5, slice(1, 2)), ERROR),
    "infinity": (by_price(lambda number: "inf", 5, slice(3, 4)), ERROR),
    "half of it is another encoding": (by_bytes(lambda text: text + "größer".encode("latin-1")), ERROR),
    "a web page": (by_bytes(lambda text: b"<!DOCTYPE html><html>" + text), ERROR),
}
