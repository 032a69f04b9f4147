"""`[ship] mode = "none"`: work is proven and kept, nothing goes anywhere, and that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driver.reports.summary_lines import summary_lines
from driver.wave_scheduler import run_wave_scheduler
from tests.support.repos import frozen
from tests.support.waves import Scene, ScriptedDriver, built, item, writes


def cycle(scene: Scene, *steps: Any) -> tuple[dict[str, Any], int]:
    driver = ScriptedDriver({"a": list(steps)}, environ=scene.environ)
    tracker = scene.folder / "tracker.json"
    report = run_wave_scheduler(
        tracker, driver=driver, state_dir=scene.state, options=scene.options()
    )
    return report, len(driver.requests)


def test_what_is_verified_is_kept_as_a_patch_and_shipped_once_that_is_asked_for(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n"}, remote=True, config='[ship]\nmode = "none"\n')
    todo = {"id": "A", "status": "todo", **item("a", "a.txt", "grep -q good a.txt")}
    (tmp_path / "tracker.json").write_text(json.dumps({"items": [todo]}))
    before = frozen(scene.repo.path)
    report, agents = cycle(scene, writes(a__txt="good\n"))
    assert (report["exit_code"], report["items_shipped"], agents) == (0, [], 1)
    wave = report["wave"]
    record = built(wave)["a"]
    assert (wave["shipped"], wave["shipped_repos"], wave["branch"]) == (None, [], None)
    assert (record["verdict"], record["commit"]) == ("verified", None)
    assert "+good" in Path(record["savedWork"]).read_text()
    assert summary_lines(report)[0] == (
        "verified 1 of 1 item; nothing ships without --git or with mode none"
    )
    assert frozen(scene.repo.path) == before
    [entry] = json.loads((tmp_path / "tracker.json").read_text())["items"]
    assert (entry["status"], entry["attempts"]) == ("todo", 0)
    assert entry["lastError"].startswith('verified, and kept as a patch as [ship] mode is "none"')
    assert record["savedWork"] in entry["lastError"]
    again, agents = cycle(scene)
    assert (again["exit_code"], agents, frozen(scene.repo.path)) == (0, 0, before)
    (tmp_path / "tidegate.toml").write_text('[ship]\nmode = "branch"\n')
    shipped, agents = cycle(scene)
    assert (shipped["exit_code"], agents) == (0, 0)
    assert scene.files_in(shipped["sha"]) == {"a.txt": "M"}
    [entry] = json.loads((tmp_path / "tracker.json").read_text())["items"]
    assert (entry["status"], entry["lastError"]) == ("in_progress", None)
