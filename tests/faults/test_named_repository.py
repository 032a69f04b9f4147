"""An item whose repository stands in one wave's manifest and goes without saying in the next.

A cycle names it for every item as soon as one item does, so the same item comes both ways.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.wave_scheduler import run_wave_scheduler
from tests.support.repos import hook
from tests.support.waves import Scene, ScriptedDriver, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are shell scripts")


def cycle(
    scene: Scene, items: Sequence[dict[str, Any]], max_items: int = 5
) -> tuple[dict[str, Any], list[str]]:
    """A cycle over these items; the slugs that agents were started for are told, too."""
    steps = {slug: [writes(**{f"{slug}__txt": "good\n"})] for slug in ("a", "b", "u")}
    driver = ScriptedDriver(steps, environ=scene.environ)
    tracker = scene.folder / "tracker.json"
    tracker.write_text(json.dumps({"items": list(items)}))
    options = scene.options()
    report = run_wave_scheduler(
        tracker, max_items, driver=driver, state_dir=scene.state, options=options
    )
    return report, [one.environment["TIDEGATE_ITEM"] for one in driver.requests]


def tracked(scene: Scene) -> list[dict[str, Any]]:
    return list(json.loads((scene.folder / "tracker.json").read_text())["items"])


@pytest.mark.parametrize("is_named_first", [pytest.param(True, marks=pytest.mark.more), False])
def test_what_is_owed_is_found_however_the_item_names_its_repository(
    tmp_path: Path, is_named_first: bool
) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n"}, remote=True)
    assert scene.remote
    plain = {"id": "A", "status": "todo", **item("a", "a.txt", "grep -q good a.txt")}
    other = {"id": "B", "status": "todo", **item("b", "b.txt", "test -e b.txt")}
    other["repo"] = str(scene.repo.path)
    urgent = {"id": "U", "status": "todo", "priority": "P1", **item("u", "u.txt", "test -e u.txt")}
    first, then, max_items = [plain, other], [urgent, plain], 1
    if not is_named_first:
        first, then, max_items = [plain], [urgent | {"repo": other["repo"]}, plain], 2
    hooks = scene.remote.path / "hooks"
    hook(hooks, "pre-receive", "exit 1")
    [kept] = cycle(scene, first)[0]["wave"]["shipped_repos"]
    assert (kept["committed"], kept["pushed"]) == (True, False)
    (hooks / "pre-receive").unlink()

    report, agents = cycle(scene, then, max_items)
    assert (report["items_selected"][0], report["exit_code"]) == ("A", 0)
    assert "a" not in agents, "the commits that are kept are what ships"
    assert scene.remote.git("rev-parse", kept["branch"]) == kept["sha"]
    shipped = {one["slug"]: one["buildRecord"]["commit"] for one in report["items_shipped"]}
    [noted] = [one for one in tracked(scene) if one["id"] == "A"]
    assert (noted["shipped"]["commit"], noted["shipped"]["branch"]) == (
        shipped["a"],
        kept["branch"],
    )
