"""A remote that refuses the content of one item: the others ship in the same run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside
from tests.support.repos import Checkout, hook
from tests.support.waves import Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are shell scripts")

PUSHED = """
echo push >> {log}
while read old new ref; do
  case $old in *[!0]*) range="$old..$new";; *) range="$new --not --all";; esac
  for commit in $(git rev-list --reverse $range); do
    {check}
  done
done
"""
BIG = """git ls-tree -r -l $commit | while read mode type blob size path; do
      [ "$size" -lt 1000 ] && continue
      {say}
      exit 1
    done || exit 1"""
GH001 = """echo "error: Trace: 0123456789abcdef0123456789abcdef" >&2
      echo "error: See https://gh.io/lfs for more information." >&2
      echo "error: File $path is 5.00 MB; this exceeds the file size limit of 1.00 MB" >&2
      echo "error: GH001: Large files detected. You may want to try Git Large File Storage." >&2"""
GITLAB = """echo "GitLab: You are attempting to check in some blobs which exceed the limit:" >&2
      echo "- $blob (5 MiB)" >&2"""
GH013 = """echo "error: GH013: Repository rule violations found for $ref." >&2
      echo "- GITHUB PUSH PROTECTION" >&2
      echo "  - Push cannot contain secrets" >&2
      echo "    locations:" >&2
      echo "      - commit: $commit" >&2
      echo "        path: $path:1" >&2"""
MESSAGE = """if git log -1 --format=%B $commit | grep -q 'Item-Slug: {slug}$'; then
      echo "commit $(git rev-parse --short=10 $commit): the message has no ticket" >&2
      exit 1
    fi"""
SILENT = 'echo "a file is too big" >&2'


def scene_in(folder: Path, check: str, *, mode: str = "branch", **config: str) -> Scene:
    ship = "".join(f'{key} = "{value}"\n' for key, value in config.items())
    scene = Scene(folder, {"README": "x"}, remote=True, config=f'[ship]\nmode = "{mode}"\n{ship}')
    assert scene.remote
    body = PUSHED.format(log=folder / "pushes", check=check)
    hook(scene.remote.path / "hooks", "pre-receive", body)
    return scene


def wave(scene: Scene, slugs: Sequence[str], big: Sequence[str], **more: Any) -> dict[str, Any]:
    text = {slug: "x" * (2000 if slug in big else 10) for slug in slugs}
    scripts = {slug: writes(**{f"{slug}__txt": text[slug]}) for slug in slugs}
    items = [item(slug, f"{slug}.txt", f"test -s {slug}.txt") for slug in slugs]
    return scene.play(scripts, items, **more)[0]


def pushes(scene: Scene) -> int:
    return len((scene.folder / "pushes").read_text().split())


def heads(place: Checkout | None) -> dict[str, str]:
    assert place
    told = place.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
    return dict(line.split(" ") for line in told.splitlines())


def files_on(scene: Scene, branch: str) -> set[str]:
    assert scene.remote
    return set(scene.remote.git("ls-tree", "-r", "--name-only", branch).split()) - {"README"}


def ships_the_rest(scene: Scene, report: Mapping[str, Any], slugs: str, refused: str) -> None:
    """What every such wave has in common."""
    rest = [slug for slug in slugs if slug not in refused]
    expected = {slug: "refused" if slug in refused else "verified" for slug in slugs}
    assert verdicts(report) == expected, scene.said.getvalue()
    assert report["shipped"] == rest
    [repo] = report["shipped_repos"]
    assert (repo["error"], repo["pushed"], report["exit_code"]) == (None, True, 1)
    assert files_on(scene, repo["branch"]) == {f"{slug}.txt" for slug in rest}
    on_remote = {name for name in heads(scene.remote) if name.startswith("wave")}
    assert on_remote <= {repo["branch"]}  # one branch, however many parts
    assert heads(scene.remote)[repo["branch"]] == repo["sha"] == heads(scene.repo)[repo["branch"]]
    assert [name for name in heads(scene.repo) if name.startswith("wave")] == [*on_remote]
    for slug in refused:
        assert "the remote refuses its content" in built(report)[slug]["error"]
        assert Path(built(report)[slug]["savedWork"]).exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("say", [GH001, GITLAB, GH013], ids=["path", "blob", "commit"])
@beside
def test_an_item_that_the_remote_names_is_left_out_and_the_others_ship(
    folder: Path, say: str
) -> None:
    scene = scene_in(folder, BIG.format(say=say))
    report = wave(scene, "abc", "b")
    ships_the_rest(scene, report, "abc", "b")
    assert pushes(scene) == 2


@pytest.mark.more
@beside
def test_a_rule_about_messages_names_a_commit(folder: Path) -> None:
    scene = scene_in(folder, MESSAGE.format(slug="b"))
    report = wave(scene, "abc", "")
    ships_the_rest(scene, report, "abc", "b")
    assert "no ticket" in built(report)["b"]["error"]
    assert pushes(scene) == 2


@pytest.mark.more
@pytest.mark.parametrize("refused", ["a", "d", "h", "dg"])
@beside
def test_an_item_that_nobody_names_is_found_by_parts(folder: Path, refused: str) -> None:
    scene = scene_in(folder, BIG.format(say=SILENT))
    report = wave(scene, "abcdefgh", refused)
    ships_the_rest(scene, report, "abcdefgh", refused)
    assert "a file is too big" in built(report)[refused[0]]["error"]
    assert pushes(scene) <= 1 + 5 * len(refused)


@pytest.mark.more
@beside
def test_parts_go_onto_the_target_too(folder: Path) -> None:
    scene = scene_in(folder, BIG.format(say=SILENT), mode="current")
    git = {"expectTopLevel": str(scene.repo.path), "mode": "current"}
    report = wave(scene, "abcd", "c", git=git)
    ships_the_rest(scene, report, "abcd", "c")
    assert report["branch"] == "main"
    assert (scene.repo.path / "d.txt").exists()


@pytest.mark.more
@beside
def test_one_commit_for_a_batch_is_divided_as_well(folder: Path) -> None:
    scene = scene_in(folder, BIG.format(say=SILENT), commit="batch")
    report = wave(scene, "abcd", "b")
    ships_the_rest(scene, report, "abcd", "b")


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("no Mondays", 5),
        ("error: GH006: Protected branch update failed", 1),
        ("Changes must be made through a pull request", 1),
    ],
)
@beside
def test_a_remote_that_refuses_everything_is_not_asked_for_ever(
    folder: Path, words: str, most: int
) -> None:
    scene = scene_in(folder, f"echo '{words}' >&2; exit 1")
    before = heads(scene.remote)
    report = wave(scene, "abcdefgh", "")
    assert set(verdicts(report).values()) == {"verified"}
    assert (report["shipped"], heads(scene.remote)) == ([], before)
    assert pushes(scene) <= 1 + most
    [repo] = report["shipped_repos"]
    assert (repo["error"], repo["committed"]) == ("git_push_failed", True)
    assert heads(scene.repo)[repo["branch"]] == repo["sha"]
    assert scene.remote
    (scene.remote.path / "hooks" / "pre-receive").unlink()
    again = wave(scene, "abcdefgh", "", resume=True)
    assert heads(scene.remote)[repo["branch"]] == repo["sha"], again
    assert set(again["shipped"]) == set("abcdefgh")


@pytest.mark.more
@beside
def test_a_single_item_is_refused_only_if_it_is_named(folder: Path) -> None:
    named = scene_in(folder / "named", BIG.format(say=GH001))
    report = wave(named, "a", "a")
    assert verdicts(report) == {"a": "refused"}
    assert "exceeds the file size limit" in built(report)["a"]["error"]
    assert [name for name in heads(named.repo) if name.startswith("wave")] == []
    silent = scene_in(folder / "silent", BIG.format(say=SILENT))
    report = wave(silent, "a", "a")
    assert verdicts(report) == {"a": "verified"}
    assert pushes(silent) == 1
    assert report["branch"] in heads(silent.repo)
