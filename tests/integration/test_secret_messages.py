"""A commit's message is published as its files are: no secret of a title or test command in it."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from tests.support.beside import beside_on
from tests.support.secrets import github
from tests.support.waves import Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "c.txt": "base\n"}
VALUE = "plain words nobody suspects"

on_scene = beside_on(
    lambda folder: nullcontext(
        Scene(folder, FILES, remote=True, environ={"MY_SERVICE_TOKEN": VALUE})
    )
)


@on_scene
def test_a_secret_in_a_title_or_a_test_command_keeps_its_item_back(scene: Scene) -> None:
    secret = github()
    report, _ = scene.play(
        {name: writes(**{f"{name}__txt": "good\n"}) for name in "abc"},
        [
            item("a", "a.txt", "grep -q good a.txt", title=f"Use {VALUE}", repairCap=0),
            item("b", "b.txt", f"KEY={secret} grep -q good b.txt", repairCap=0),
            item("c", "c.txt", "grep -q good c.txt", title="Good"),
        ],
    )
    assert verdicts(report) == {"a": "refused", "b": "refused", "c": "verified"}
    assert report["shipped"] == ["c"]
    assert "the message of the commit" in built(report)["a"]["error"]
    assert "MY_SERVICE_TOKEN" in built(report)["a"]["error"]
    assert "github_token" in built(report)["b"]["error"]
    assert scene.remote is not None
    published = scene.remote.git("log", "--all", "--format=%B")
    assert VALUE not in published
    assert secret not in published
