"""All items of a wave as one commit: what it says, what is proven of it, who finds it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.domain.commit_message import items_of, trailers_in
from driver.git.private_git import open_repository
from driver.maintenance.reproduce import find, reproduce
from tests.support.repos import hook
from tests.support.waves import Scene, built, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are shell scripts")
FILES = {f"{slug}.txt": "base\n" for slug in "abc"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES, remote=True, config='[ship]\ncommit = "batch"\n')


ITEMS = [
    item(slug, f"{slug}.txt", f"grep -q good {slug}.txt", id=slug.upper(), title=f"Mend {slug}")
    for slug in "abc"
]


def steps() -> dict[str, Any]:
    return {slug: writes(**{f"{slug}__txt": "good\n"}) for slug in "abc"}


def trailers(scene: Scene, commit: str) -> list[dict[str, str]]:
    return items_of(trailers_in(scene.repo.git("show", "-s", "--format=%B", commit)))


def test_one_commit_names_every_item_and_holds_the_tree_that_all_tests_were_green_on(
    scene: Scene,
) -> None:
    report, _ = scene.play(steps(), ITEMS)
    assert (report["shipped"], report["exit_code"]) == (["a", "b", "c"], 0)
    assert scene.log(report["branch"]) == [report["sha"]]
    assert scene.remote
    assert report["sha"] in scene.remote.git("for-each-ref")
    assert scene.files_in(report["sha"]) == dict.fromkeys(FILES, "M")
    body = scene.repo.git("show", "-s", "--format=%B", report["sha"])
    assert body.splitlines()[:5] == [
        "3 items: a, b, c", "", "- a: Mend a", "- b: Mend b", "- c: Mend c"
    ]  # fmt: skip
    tree = scene.repo.git("rev-parse", f"{report['sha']}^{{tree}}")
    said = trailers(scene, report["sha"])
    assert [(one["Item-Id"], one["Item-Slug"]) for one in said] == [
        ("A", "a"), ("B", "b"), ("C", "c")
    ]  # fmt: skip
    assert {(one["Wave-Id"], one["Proved-Tree"]) for one in said} == {("w1", tree)}
    records = built(report)
    assert {record["commit"] for record in records.values()} == {report["sha"]}
    for slug, one in zip("abc", said, strict=True):
        green = [r for r in records[slug]["together"] if (r["kind"], r["tree"]) == ("green", tree)]
        assert [run["command"] for run in green] == [one["Test-Command"]]
        shipped = find(open_repository(scene.repo.path, scene.environ), scene.settings, "w1", slug)
        assert (shipped.commit, shipped.command) == (report["sha"], one["Test-Command"])
    again = reproduce(shipped, open_repository(scene.repo.path, scene.environ), scene.settings)
    assert again.differences == ()


@pytest.mark.more
def test_a_resumed_wave_finds_every_item_in_it(scene: Scene) -> None:
    assert scene.remote
    away = scene.remote.path.rename(scene.folder / "moved.git")
    kept, _ = scene.play(steps(), ITEMS)
    assert (kept["shipped"], kept["exit_code"]) == ([], 1)
    away.rename(scene.remote.path)
    again, driver = scene.play({}, ITEMS, resume=True, wave_id="w2")
    assert (again["shipped"], again["exit_code"], driver.requests) == (["a", "b", "c"], 0, [])
    assert scene.log(kept["branch"]) == [kept["sha"]]
    assert scene.remote.git("rev-parse", kept["branch"]) == kept["sha"]
    merged = scene.repo.git("merge", "-q", "--ff-only", kept["branch"])
    assert merged == ""
    third, driver = scene.play({}, ITEMS, resume=True, wave_id="w3")
    assert (third["shipped"], driver.requests) == (["a", "b", "c"], [])


def test_a_pre_commit_hook_still_keeps_one_item_back(scene: Scene) -> None:
    hook(
        scene.repo.path / ".git" / "hooks",
        "pre-commit",
        "! git diff --cached b.txt | grep -q +good",
    )
    report, _ = scene.play(steps(), ITEMS)
    assert (report["shipped"], report["exit_code"]) == (["a", "c"], 1)
    assert built(report)["b"]["verdict"] == "refused"
    assert scene.files_in(report["sha"]) == {"a.txt": "M", "c.txt": "M"}
    assert [one["Item-Slug"] for one in trailers(scene, report["sha"])] == ["a", "c"]


@pytest.mark.more
def test_commit_msg_is_asked_of_the_one_message_and_may_refuse_it_all(scene: Scene) -> None:
    hooks, asked = scene.repo.path / ".git" / "hooks", scene.folder / "asked"
    hook(hooks, "commit-msg", f'head -1 "$1" >> {asked}; echo "no ticket" >&2; exit 1')
    report, _ = scene.play(steps(), ITEMS)
    assert asked.read_text().splitlines() == ["3 items: a, b, c"]
    [repo] = report["shipped_repos"]
    assert (report["shipped"], repo["error"], report["exit_code"]) == ([], "hook_refused", 1)
    assert "no ticket" in json.dumps(repo)
    hook(hooks, "commit-msg", 'echo "Ticket: 7" >> "$1"')
    again, driver = scene.play({}, ITEMS, resume=True, wave_id="w2")
    assert (again["shipped"], driver.requests) == (["a", "b", "c"], [])
    assert "Ticket: 7" in scene.repo.git("show", "-s", "--format=%B", again["sha"])


@pytest.mark.more
def test_a_batch_of_one_is_a_commit_like_any_other(scene: Scene) -> None:
    report, _ = scene.play(steps(), ITEMS[:1])
    assert scene.repo.git("show", "-s", "--format=%s", report["sha"]) == "Mend a"
