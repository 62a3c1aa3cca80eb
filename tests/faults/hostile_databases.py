"""Databases of strangers, each made to hang or to fill the memory of what reads it as a study."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from studies.example_studies import CONFIG, add_trial, make_study

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
HUGE = "printf('%.*c', 900000000, 'x')"
KINDS: dict[str, Callable[[Path], None]] = {}
SHOWN = {"odd_names", "endless_pages"}  # which are read as they are: of pages that repeat, each part once
Maker = Callable[[Path], None]


def make_sound(folder: Path) -> Path:
    """The folder of a study that can be read; every kind begins with a copy of its file."""
    folder.mkdir(parents=True)
    study = make_study(folder / "study.db", folder.name)
    study.set_user_attr("rookery:config", json.dumps(CONFIG))
    for value in (1.0, 2.0, 3.0):
        add_trial(study, value)
    return folder


def make_hostile(kind: str, folder: Path, sound: Path) -> Path:
    """The folder of a study that cannot be read, with the file `study.db`."""
    folder.mkdir(parents=True)
    shutil.copyfile(sound / "study.db", folder / "study.db")
    with sqlite3.connect(folder / "study.db") as database:
        database.execute("UPDATE studies SET study_name = ?", (folder.name,))
    database.close()
    KINDS[kind](folder)
    return folder


def kind(maker: Maker) -> Maker:
    KINDS[maker.__name__] = maker
    return maker


def statements(folder: Path, *texts: str) -> None:
    database = sqlite3.connect(folder / "study.db", isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    for text in texts:
        database.execute(text)
    database.close()


def schema_row(folder: Path, type_: str, name: str, text: str) -> None:
    """A row of SQLite's list of tables, which may lie."""
    statements(
        folder,
        "PRAGMA writable_schema = ON",
        f"INSERT INTO sqlite_master VALUES ('{type_}', '{name}', '{name}', 0, '{text}')".replace("\n", " "),
    )


@kind
def endless_view(folder: Path) -> None:
    statements(folder, "DROP TABLE trials", f"CREATE VIEW trials AS {ENDLESS} SELECT x AS trial_id, x AS number, "
               "1 AS study_id, 'COMPLETE' AS state, '' AS datetime_start, '' AS datetime_complete FROM c")  # fmt: skip


@kind
def huge_view(folder: Path) -> None:
    statements(folder, "DROP TABLE studies", f"CREATE VIEW studies AS SELECT 1 AS study_id, {HUGE} AS study_name")


@kind
def endless_count(folder: Path) -> None:
    statements(folder, "DROP TABLE version_info",
               f"CREATE VIEW version_info AS {ENDLESS} SELECT count(*) AS schema_version FROM c")  # fmt: skip


@kind
def view_called_a_table(folder: Path) -> None:
    statements(folder, "DROP TABLE studies")
    schema_row(
        folder, "table", "studies", f"CREATE VIEW studies AS {ENDLESS} SELECT x AS study_id, x AS study_name FROM c"
    )


@kind
def view_under_another_name(folder: Path) -> None:
    statements(folder, "DROP TABLE studies")
    schema_row(
        folder, "index", "harmless", f"CREATE VIEW studies AS {ENDLESS} SELECT x AS study_id, x AS study_name FROM c"
    )


@kind
def generated_column(folder: Path) -> None:
    statements(folder, "DROP TABLE studies", "CREATE TABLE studies (study_id INTEGER PRIMARY KEY, "
               f"study_name TEXT AS ({HUGE}) VIRTUAL)")  # fmt: skip


@kind
def trigger(folder: Path) -> None:
    statements(folder, f"CREATE TRIGGER t AFTER INSERT ON trials BEGIN INSERT INTO studies SELECT x, x FROM ({ENDLESS} "
               "SELECT x FROM c); END")  # fmt: skip


@kind
def virtual_table(folder: Path) -> None:
    statements(folder, "DROP TABLE studies", "CREATE VIRTUAL TABLE studies USING fts5(study_id, study_name)")


@kind
def long_text(folder: Path) -> None:
    statements(folder, "INSERT INTO study_user_attributes (study_id, key, value_json) "
               "VALUES (1, 'x', printf('\"%.*c\"', 9000000, 'x'))")  # fmt: skip


@kind
def long_blob(folder: Path) -> None:
    statements(folder, "UPDATE studies SET study_name = zeroblob(50000000)")


@kind
def many_empty_dicts(folder: Path) -> None:
    """20 MB of text, which would be 1.5 GB in Python."""
    statements(folder, f"INSERT INTO study_user_attributes (study_id, key, value_json) {ENDLESS} SELECT 1, x, "
               "'[' || replace(hex(zeroblob(170000)), '00', '{},{},') || '0]' FROM c LIMIT 10")  # fmt: skip


@kind
def deep_json(folder: Path) -> None:
    text = "[" * 500_000
    statements(folder, f"UPDATE study_user_attributes SET value_json = '{text}'")


@kind
def digits(folder: Path) -> None:
    statements(folder, f"UPDATE study_user_attributes SET value_json = '{'9' * 1_000_000}'")


@kind
def wrong_types(folder: Path) -> None:
    statements(folder, "UPDATE trials SET number = 'first', datetime_start = x'00ff', state = 'EATEN'")


@kind
def texts_for_numbers(folder: Path) -> None:
    statements(folder, "UPDATE trial_values SET value = 'ten'", "UPDATE trial_params SET param_value = 'ten'")


@kind
def huge_numbers(folder: Path) -> None:
    statements(folder, "UPDATE trials SET number = 9223372036854775807", "UPDATE trial_values SET objective = 'x'")


@kind
def no_distribution(folder: Path) -> None:
    statements(folder, "UPDATE trial_params SET distribution_json = '{\"name\": \"CategoricalDistribution\", "
               "\"attributes\": {\"choices\": [" + "{}," * 30_000 + "{}]}}'")  # fmt: skip


@kind
def not_utf8(folder: Path) -> None:
    statements(folder, "UPDATE studies SET study_name = CAST(x'fffe00ff' AS TEXT)")


@kind
def odd_names(folder: Path) -> None:
    statements(folder, "UPDATE trial_user_attributes SET key = char(27, 91, 50, 74)")


@kind
def many_studies(folder: Path) -> None:
    statements(folder, f"INSERT INTO studies (study_id, study_name) {ENDLESS} SELECT x + 1, printf('%d%.*c', x, "
               "1000, 'x') FROM c LIMIT 20000", "DELETE FROM studies WHERE study_id = 1")  # fmt: skip


@kind
def many_tables(folder: Path) -> None:
    statements(folder, "PRAGMA writable_schema = ON", f"INSERT INTO sqlite_master {ENDLESS} SELECT 'table', 't' || x, "
               "'t' || x, 2, 'CREATE TABLE t' || x || '(a)' FROM c LIMIT 40000")  # fmt: skip


@kind
def endless_pages(folder: Path) -> None:
    """Three inner pages, all of whose children are the next one: a scan would find a thousand million trials."""
    statements(
        folder,
        f"INSERT INTO trials (trial_id, number, study_id, state) {ENDLESS} SELECT x + 9, x + 9, 1, 'COMPLETE' "
        "FROM c LIMIT 60000",
        "DROP INDEX ix_trials_study_id",
    )
    data = bytearray((folder / "study.db").read_bytes())
    size = struct.unpack(">H", data[16:18])[0]
    root = _root_page(folder, "trials")
    inner, pages = data[(root - 1) * size : root * size], len(data) // size
    for page, child in ((root, pages + 1), (pages + 1, pages + 2), (pages + 2, pages + 3)):
        data[(page - 1) * size : page * size] = _with_child(inner, child)
    data[(pages + 2) * size :] = inner
    data[28:32] = struct.pack(">I", pages + 3)
    (folder / "study.db").write_bytes(data)


def _root_page(folder: Path, table: str) -> int:
    database = sqlite3.connect(folder / "study.db")
    (found,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    database.close()
    return int(found)


def _with_child(page: bytearray, child: int) -> bytearray:
    """An inner page of a table, all of whose children are one page."""
    assert page[0] == 5
    cells = struct.unpack(">H", page[3:5])[0]
    made = bytearray(page)
    for place in (8, *struct.unpack(f">{cells}H", page[12 : 12 + 2 * cells])):
        made[place : place + 4] = struct.pack(">I", child)
    return made


@kind
def random_header(folder: Path) -> None:
    data = (folder / "study.db").read_bytes()
    noise = np.random.default_rng(1).bytes(84)
    (folder / "study.db").write_bytes(data[:16] + noise + data[100:])


@kind
def random_pages(folder: Path) -> None:
    data = (folder / "study.db").read_bytes()
    (folder / "study.db").write_bytes(data[:4096] + np.random.default_rng(2).bytes(len(data) - 4096))


@kind
def wrong_page_size(folder: Path) -> None:
    data = (folder / "study.db").read_bytes()
    (folder / "study.db").write_bytes(data[:16] + struct.pack(">H", 512) + data[18:])


@kind
def cut_off(folder: Path) -> None:
    os.truncate(folder / "study.db", 5000)


@kind
def a_terabyte_of_nothing(folder: Path) -> None:
    (folder / "study.db").write_bytes(b"")
    os.truncate(folder / "study.db", 1 << 40)


@kind
def pipe(folder: Path) -> None:
    (folder / "study.db").unlink()
    os.mkfifo(folder / "study.db")
    (folder / "study.json").write_text(json.dumps({"name": folder.name, "storage": "study.db"}))


@kind
def device(folder: Path) -> None:
    (folder / "study.db").unlink()
    (folder / "study.db").symlink_to("/dev/zero")
    (folder / "study.json").write_text(json.dumps({"name": folder.name, "storage": "study.db"}))


@kind
def circle_of_links(folder: Path) -> None:
    (folder / "study.db").unlink()
    (folder / "study.db").symlink_to(folder / "study.db")
    (folder / "study.json").write_text(json.dumps({"name": folder.name, "storage": "study.db"}))


@kind
def pipe_as_journal(folder: Path) -> None:
    os.mkfifo(folder / "study.db-journal")


@kind
def link_as_write_ahead_log(folder: Path) -> None:
    data = bytearray((folder / "study.db").read_bytes())
    data[18:20] = b"\2\2"
    (folder / "study.db").write_bytes(data)
    (folder / "study.db-wal").symlink_to("/dev/zero")


@kind
def journal_that_names_a_file(folder: Path) -> None:
    """SQLite would delete that file after it has restored the database."""
    victim = folder / "victim"
    victim.write_text("kept")
    name = str(victim).encode()
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    end = struct.pack(">I", 1) + name + struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
    (folder / "study.db-journal").write_bytes(head.ljust(512, b"\0") + end)


@kind
def deep_json_lines(folder: Path) -> None:
    (folder / "study.db").write_text('{"op_code": 0, "worker_id": "x", "a": ' + "[" * 200_000 + "\n")


@kind
def wrong_json_lines(folder: Path) -> None:
    (folder / "study.db").write_text('{"op_code": 5, "worker_id": 3, "trial_id": {}}\n' * 1000)


@kind
def large_json_lines(folder: Path) -> None:
    (folder / "study.db").write_text('{"op_code": 0, "a": [' + "{}," * 5_000_000 + "0]}\n")
