"""Whatever an item is called, its place lies among our own and nothing else is removed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.git.private_git import PrivateGit, open_repository
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from tests.support.repos import make_repo, user_environ


@pytest.mark.parametrize("way", ["beside", "through", "from the top"])
def test_a_slug_that_climbs_out_neither_removes_nor_writes_a_folder_there(
    way: str, tmp_path: Path
) -> None:
    precious = tmp_path / "a" / "b" / "precious"
    precious.mkdir(parents=True)
    (precious / "thesis.txt").write_text("years of work")
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "repo", environ, {"a.txt": "a\n"})
    repo = open_repository(user.path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    root = tmp_path / "a" / "b" / "root"
    context = CloneContext(root, git, repo, Preparation())
    climbing = {"beside": "../../precious", "through": "x/../../../precious"}
    slug = climbing.get(way, str(precious))
    place = context.workspace(slug).top
    assert place.parent == root / "items"
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_slugs_of_any_characters_and_length_have_a_place(tmp_path: Path) -> None:
    environ = user_environ(tmp_path / "home")
    user = make_repo(tmp_path / "repo", environ, {"a.txt": "a\n"})
    repo = open_repository(user.path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    context = CloneContext(tmp_path / "root", git, repo, Preparation())
    slugs = ["x" * 1000, "\u00e9/x", "a\nb", "/x", "x/y", "x"]
    places = {context.workspace(slug).top for slug in slugs}
    assert len(places) == len(slugs)
    assert {place.parent for place in places} == {tmp_path / "root" / "items"}
