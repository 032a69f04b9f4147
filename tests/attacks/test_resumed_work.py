"""Work of an earlier run has to pass all that other work has, whatever the journal says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pipelines import QUIET
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")
OWNED = ["a.txt", ".gitignore", "a.log"]
PROVE = "test -s a.txt"


def leaves_a_link(agent: Agent) -> None:
    (agent.folder / "a.txt").symlink_to("/etc/passwd")


def hides_a_file(agent: Agent) -> None:
    agent.write({"a.txt": "good\n", ".gitignore": "*.log\n", "a.log": "hidden\n"})


@pytest.mark.parametrize(
    ("cheat", "why"), [(leaves_a_link, "links that leave"), (hides_a_file, "that git ignores")]
)
def test_resumed_work_is_examined_as_new_work_is(
    tmp_path: Path, cheat: Callable[[Agent], None], why: str
) -> None:
    scene = Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)
    made = item("a", OWNED, PROVE, repairCap=0)
    first, _ = scene.play({"a": cheat}, [made])
    assert verdicts(first) == {"a": "refused"}
    assert why in built(first)["a"]["error"]
    entry = scene.state / "journal" / "a.json"
    forged = json.loads(entry.read_text(encoding="utf-8"))
    tree = built(first)["a"]["tree"]
    entry.write_text(json.dumps(forged | {"verdict": "verified", "tree": tree}), encoding="utf-8")
    again, driver = scene.play({"a": writes(a__txt="good\n")}, [made], resume=True)
    assert len(driver.requests) == 1
    assert verdicts(again) == {"a": "verified"}
