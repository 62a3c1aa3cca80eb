"""Games that come with rookery: the save states of their starts are cached, and made again if the cache is damaged."""

from __future__ import annotations

import pytest

from rookery.worlds.gameboy import states
from rookery.worlds.gameboy.states import built_in_states


@pytest.mark.slow
def test_states_are_kept_and_a_damaged_file_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    built_in_states.cache_clear()
    first = built_in_states("meadow")
    (file,) = tmp_path.iterdir()
    kept = file.read_bytes()
    monkeypatch.setattr(states, "_make_states", lambda *_: pytest.fail("read from the cache instead"))
    built_in_states.cache_clear()
    assert built_in_states("meadow") == first
    monkeypatch.undo()
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    file.write_bytes(kept[:-100])
    built_in_states.cache_clear()
    assert built_in_states("meadow") == first
    assert file.read_bytes() == kept


def test_without_a_cache_folder_states_are_made_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "file" / "folder"))
    built_in_states.cache_clear()
    assert len(built_in_states("meadow")) == len(states.read_starts("meadow").starts)
