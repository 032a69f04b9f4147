"""STATE.md and BUILDLOG.md: the same state gives the same bytes, and no text breaks their shape."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import TRACKER, wave_stream
from state_store.database.projections import (
    project_orchestrator_status,
    project_tracker,
    project_wave,
)
from state_store.documents.errors import CannotRunError
from state_store.views.export import (
    export_buildlog,
    export_state_md,
    export_tracker,
    render_buildlog,
    render_state_md,
    state_md,
)
from state_store.views.phase import read_git_phase

AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[StateAPI]:
    with StateAPI(tmp_path / "state" / "tracker_events.db") as opened:
        yield opened


def status(**view: Any) -> dict[str, Any]:
    return {**project_orchestrator_status([]), **view}


def wave(name: str, started: str | None, **view: Any) -> dict[str, Any]:
    return {**project_wave([]), "wave_id": name, "started": started, **view}


def test_an_empty_state_is_a_title() -> None:
    assert render_state_md(status(), project_tracker([])) == "# State\n"
    assert render_buildlog([]) == "# Build log\n"


def test_the_state_of_many_items_is_that_of_a_whole_rendering(api: StateAPI) -> None:
    made = [("item_created", {"id": f"T-{n}", "title": f"t{n}"}) for n in range(1_100)]
    api.append_many(TRACKER, made)

    def check() -> None:
        whole = render_state_md(api.project("orchestrator_status"), api.project("tracker"))
        assert state_md(api) == state_md(api) == whole

    check()
    api.append(TRACKER, "item_updated", {"id": "T-3", "status": "done", "title": "new"})
    api.append(TRACKER, "item_created", {"id": "T-new", "status": "todo"})
    check()
    api.store.rebuild_items()
    assert api.store.read_snapshot("items:tracker") is None
    check()


def test_the_state_has_phase_decisions_steps_findings_and_items() -> None:
    items = [
        {"id": "a", "status": "done", "title": "A"},
        {"id": "b", "status": "odd", "slug": "bee"},
        {"id": "c", "status": "todo", "title": "C", "priority": "P1"},
        {"id": "d"},
    ]
    view = status(
        phase="build",
        phase_since=AT,
        decisions=[{"decision": "use git", "at": AT}, {"what": 1, "at": AT}],
        next_steps=["one", {"two": 2}],
        findings=[{"finding": "f", "at": AT}],
    )
    assert render_state_md(view, {"items": items}) == (
        "# State\n\n## Phase: `build`\n\nSince 2026-01-02T03:04:05Z.\n\n"
        '## Decisions\n\n- 2026-01-02T03:04:05Z use git\n- 2026-01-02T03:04:05Z {"what": 1}\n\n'
        '## Next steps\n\n- one\n- {"two": 2}\n\n'
        "## Findings\n\n- 2026-01-02T03:04:05Z f\n\n"
        "## Items: todo (1)\n\n- c [P1] C\n\n"
        "## Items: done (1)\n\n- a A\n\n"
        "## Items: odd (1)\n\n- b bee\n\n"
        "## Items: without status (1)\n\n- d\n"
    )


def test_no_text_makes_a_heading_of_its_own(tmp_path: Path) -> None:
    evil = "x\n## Phase: `evil`\r\n- y\u2028z"
    view = status(
        phase="a`b\nc", phase_since=AT, next_steps=[evil], decisions=[{"at": AT, evil: 1}]
    )
    text = render_state_md(view, {"items": [{"id": evil, "status": evil, "title": evil}]})
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[1:3] == ["## Phase: `a'b c`", "## Decisions"]
    assert len(headings) == 5
    (tmp_path / "STATE.md").write_text(text)
    assert read_git_phase(tmp_path / "STATE.md") == "a'b c"


def test_the_build_log_has_the_newest_wave_and_attempt_first() -> None:
    attempts = [
        {"number": 1, "verdict": "failed", "reason": "red\nvery"},
        {"number": 2, "verdict": "verified", "reason": ""},
    ]
    shipped = {"slug": "s", "phase": "shipped", "verdict": "verified", "reason": ""}
    items = [
        {**shipped, "commit": "0123456789abcdef", "attempts": attempts},
        {"slug": "t", "phase": "build", "verdict": None, "reason": None, "commit": None}
        | {"attempts": [{"number": 1, "verdict": None, "reason": None}]},
    ]
    text = render_buildlog(
        [
            wave("lost", None),
            wave("old", AT, finished=AT, aborted=True, abort_reason="halted"),
            wave("new", "2026-01-03T00:00:00Z", items=items, shipped=["s"]),
        ]
    )
    assert text == (
        "# Build log\n\n"
        "## Wave new\n\nStarted 2026-01-03T00:00:00Z, not ended; 1 of 2 items shipped.\n\n"
        "- s: verified, commit 0123456789ab\n"
        "  - attempt 2: verified\n  - attempt 1: failed: red very\n"
        "- t: build\n  - attempt 1: not judged\n\n"
        "## Wave old\n\nStarted 2026-01-02T03:04:05Z, ended 2026-01-02T03:04:05Z; "
        "0 of 0 items shipped.\nAborted: halted.\n\n"
        "## Wave lost\n\nStarted unknown, not ended; 0 of 0 items shipped.\n"
    )


def test_waves_of_one_second_have_a_fixed_order() -> None:
    waves = [wave(name, AT) for name in "ba"]
    assert render_buildlog(waves) == render_buildlog(waves[::-1])


def fill(api: StateAPI) -> None:
    api.append("orchestrator_status", "phase_changed", {"phase": "build"})
    api.append(TRACKER, "item_created", {"id": "a", "status": "todo", "title": "J\u00fcrgen"})
    for name in ("w1", "w2"):
        api.append(wave_stream(name), "wave_started", {"wave_id": name, "items": ["a"]})
        api.append(wave_stream(name), "item_shipped", {"slug": "a", "commit": "c"})
    api.append(wave_stream("nameless"), "wave_finished", {})


@pytest.mark.parametrize("export", [export_state_md, export_buildlog, export_tracker])
def test_an_export_is_the_same_every_time(api: StateAPI, tmp_path: Path, export: Any) -> None:
    fill(api)
    paths = [tmp_path / "one", tmp_path / "deep" / "two"]
    for path in paths:
        export(api, path)
    export(api, paths[0])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "one", "state"]


def test_the_build_log_tells_of_every_wave(api: StateAPI, tmp_path: Path) -> None:
    fill(api)
    export_buildlog(api, tmp_path / "BUILDLOG.md")
    text = (tmp_path / "BUILDLOG.md").read_text()
    assert [line[8:] for line in text.splitlines() if line.startswith("## ")] in (
        ["w1", "w2", "nameless"],
        ["w2", "w1", "nameless"],
    )


@pytest.mark.more
def test_only_a_wave_with_new_events_is_folded_again(api: StateAPI, tmp_path: Path) -> None:
    fill(api)
    path = tmp_path / "BUILDLOG.md"
    export_buildlog(api, path)
    version, kept, _ = api.store.read_snapshot("view:buildlog") or (0, {}, "")
    for section in kept["sections"].values():
        section[-1] += "\nas it was kept"
    api.store.save_snapshot("view:buildlog", version, kept)
    export_buildlog(api, path)
    assert path.read_text().count("as it was kept") == 3
    api.append(wave_stream("w1"), "wave_finished", {"aborted": True, "abort_reason": "halted"})
    export_buildlog(api, path)
    assert path.read_text().count("as it was kept") == 2
    assert "Aborted: halted." in path.read_text()
    api.append_many("notes", [("note", n) for n in range(20_001)])  # far more than waves
    api.append(wave_stream("w2"), "wave_finished", {"aborted": True, "abort_reason": "halted"})
    export_buildlog(api, path)
    assert path.read_text().count("as it was kept") == 1


@pytest.mark.parametrize("kept", [{"format": 0, "sections": {}}, {}])
def test_sections_kept_by_another_version_are_made_anew(
    api: StateAPI, tmp_path: Path, kept: dict[str, Any]
) -> None:
    fill(api)
    api.store.save_snapshot("view:buildlog", 1, kept)
    export_buildlog(api, tmp_path / "BUILDLOG.md")
    views = [api.project(wave_stream(name)) for name in ("w1", "w2")]
    views.append({**api.project(wave_stream("nameless")), "wave_id": "nameless"})
    assert (tmp_path / "BUILDLOG.md").read_text() == render_buildlog(views)


def test_the_exported_tracker_is_the_view_with_archived_items(
    api: StateAPI, tmp_path: Path
) -> None:
    fill(api)
    api.append(TRACKER, "item_archived", {"id": "a", "completed_at": "then"})
    export_tracker(api, tmp_path / "t.json")
    assert (tmp_path / "t.json").read_text("utf-8") == (
        '{\n  "version": 1,\n  "items": [\n    {\n      "id": "a",\n'
        '      "status": "archived",\n      "title": "J\u00fcrgen",\n'
        '      "completed_at": "then"\n    }\n  ]\n}\n'
    )


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_folder_that_cannot_be_written_is_named_and_the_old_file_stays(
    api: StateAPI, tmp_path: Path
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    fill(api)
    path = tmp_path / "out" / "STATE.md"
    export_state_md(api, path)
    before = path.read_bytes()
    api.append("orchestrator_status", "phase_changed", {"phase": "other"})
    path.parent.chmod(0o500)
    try:
        with pytest.raises(CannotRunError, match=r"STATE\.md"):
            export_state_md(api, path)
    finally:
        path.parent.chmod(0o700)
    assert path.read_bytes() == before
