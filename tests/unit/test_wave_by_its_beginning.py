"""A wave is found by as much of its id as its branch and its items' notes tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_store.api import StateAPI
from state_store.views.store_summary import StoreSummary
from tools import state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with StateAPI(tmp_path / "tracker_events.db") as api:
        for wave in ("6f0c12ab-1", "6f0c12ab-2", "6f0d", "6f0d0000"):
            api.append(f"wave:{wave}", "wave_started", {"wave_id": wave, "items": []})
    return tmp_path


@pytest.mark.parametrize("asked", ["6f0c12ab-1", "6f0c12ab-2", "6f0d", "6f0d00"])
def test_a_whole_id_or_the_only_one_that_begins_so_is_shown(folder: Path, asked: str) -> None:
    assert state.main(["wave", asked, "--state-dir", str(folder)]) == 0


@pytest.mark.parametrize(
    ("asked", "why"),
    [("6f0c", "several waves begin with 6f0c;"), ("7", "there is no wave 7;"), ("", "no wave ;")],
)
def test_what_is_said_of_no_wave_or_of_several_is_refused(
    folder: Path, asked: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert state.main(["wave", asked, "--state-dir", str(folder)]) == 2
    assert why in capsys.readouterr().err


def test_a_wave_is_found_by_its_beginning_however_old_it_is(folder: Path) -> None:
    database = str(folder / "tracker_events.db")
    with StateAPI(database) as api:
        api.append_many("other", [("noted", {})] * 20_001)
    with StoreSummary(database) as summary:
        assert summary.newest_waves(9) == []
        assert summary.waves_that_begin("6f0d0") == ["6f0d0000"]
        assert summary.waves_that_begin("6f0d") == ["6f0d"]
        assert summary.waves_that_begin("") == []
