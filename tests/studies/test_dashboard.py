"""optuna-dashboard opens a study with rookery's attributes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from studies.example_studies import add_trial, make_folder


def get(app: Any, path: str) -> Any:
    """The JSON that the app answers."""
    answered: list[str] = []
    name, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": name, "QUERY_STRING": query, "SERVER_NAME": "localhost",
        "SERVER_PORT": "80", "wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO(), "wsgi.url_scheme": "http",
    }  # fmt: skip
    body = b"".join(app(environ, lambda status, headers, *_: answered.append(status)))
    assert answered == ["200 OK"], body
    return json.loads(body)


@pytest.mark.slow  # importing the dashboard takes seconds
def test_the_dashboard_shows_a_study_with_our_attributes(tmp_path: Path) -> None:
    optuna_dashboard = pytest.importorskip("optuna_dashboard")
    study = make_folder(tmp_path)
    parts = {"seed-0": {"value": 2.0, "run": "runs/trial-00000-seed-0", "seconds": 1.0, "steps": 9, "reason": None}}
    add_trial(study, 2.0, parts=parts, interval=[1.0, 3.0], seconds=1.0)
    add_trial(study, None, TrialState.FAIL, reason="out of memory")
    study.set_user_attr("rookery:verified:0", {"values": {"1000": 1.5}, "iqm": 1.5, "interval": [1, 2], "runs": []})
    app = optuna_dashboard.wsgi(study._storage)
    (summary,) = get(app, "/api/studies")["study_summaries"]
    assert summary["study_name"] == "demo"
    detail = get(app, f"/api/studies/{summary['study_id']}?after=0")
    assert [trial["state"] for trial in detail["trials"]] == ["Complete", "Fail"]
    attributes = {each["key"]: each["value"] for each in detail["trials"][0]["user_attrs"]}
    assert json.loads(attributes["rookery:parts"]) == parts
