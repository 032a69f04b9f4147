"""What the receipts of the classic order say is what happened."""

from __future__ import annotations

from pathlib import Path

from driver.backends.recorded import prompt_sha256
from tests.support.pipelines import QUIET
from tests.support.waves import Scene, built, item, writes


def test_receipts_name_what_was_asked_and_the_tree_that_was_published(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)
    items = [item(slug, f"{slug}.txt", f"test -s {slug}.txt", spotCheckFrac=0) for slug in "ab"]
    scripts = {"a": writes(a__txt="1\n"), "b": writes(b__txt="2\n")}
    report, driver = scene.play(scripts, items)
    asked = {prompt_sha256(request.prompt) for request in driver.requests}
    told = [record["phases"] for record in built(report).values()]
    assert {phases[0]["promptHash"] for phases in told} == asked
    for record in built(report).values():
        last = record["phases"][-1]
        tree = scene.repo.git("rev-parse", record["commit"] + "^{tree}").strip()
        assert (last["phase"], last["inputTree"]) == ("publish", record["tree"])
        assert (last["outputTree"], last["artifacts"]) == (tree, [record["commit"]])
    assert {p[-1]["outputTree"] for p in told} != {p[-1]["inputTree"] for p in told}
