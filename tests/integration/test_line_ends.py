"""Files that an agent's editor saved with other line ends keep those of the base."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from driver.policy.line_ends import kept
from tests.support.beside import beside_on
from tests.support.waves import Agent, Scene, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
LINES = "".join(f"line {number}\n" for number in range(52))
DOS = LINES.replace("\n", "\r\n").encode()
FILES: dict[str, str | bytes] = {"unix.txt": LINES, "dos.txt": DOS, "mixed.txt": b"a\r\nb\n"}

on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


def saves(**files: bytes) -> Callable[[Agent], None]:
    def agent(agent: Agent) -> None:
        for name, content in files.items():
            (agent.folder / name.replace("__", ".")).write_bytes(content)

    return agent


def shipped(scene: Scene, sha: str, path: str) -> bytes:
    asked = ["git", "cat-file", "blob", f"{sha}:{path}"]
    return subprocess.run(asked, cwd=scene.repo.path, check=True, capture_output=True).stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "saved", "ships"),
    [
        ("unix.txt", DOS + b"good\r\n", LINES.encode() + b"good\n"),
        ("dos.txt", LINES.encode() + b"good\n", DOS + b"good\r\n"),
        ("mixed.txt", b"a\r\nb\r\ngood\r\n", b"a\r\nb\r\ngood\r\n"),
        ("unix.txt", LINES.encode() + b"good\r\n", LINES.encode() + b"good\r\n"),
        ("dos.txt", DOS + b"good\r\n", DOS + b"good\r\n"),
        ("new.txt", b"good\r\n", b"good\r\n"),
    ],
)
@on_scene
def test_the_line_ends_of_the_base_are_kept_and_told(
    scene: Scene, path: str, saved: bytes, ships: bytes
) -> None:
    agent = saves(**{path.replace(".", "__"): saved})
    report, _ = scene.play({"a": agent}, [item("a", path, f"grep -q good {path}")])
    assert report["shipped"] == ["a"]
    assert shipped(scene, report["sha"], path) == ships
    notes = built(report)["a"]["attempts"][0]["notes"]
    told = [f"saved with other line ends; the usual ones were kept: {path}"]
    assert notes == (told if saved != ships else [])


@pytest.mark.more
@pytest.mark.parametrize(("value", "ships"), [("true", b"good\n"), ("input", b"good\n")])
@on_scene
def test_new_files_get_the_line_ends_that_the_users_git_would_give_them(
    scene: Scene, value: str, ships: bytes
) -> None:
    scene.repo.git("config", "core.autocrlf", value)
    agent = saves(new__txt=b"good\r\n", picture__bin=b"\0\r\n")
    owned = ["new.txt", "picture.bin"]
    report, _ = scene.play({"a": agent}, [item("a", owned, "grep -q good new.txt")])
    assert shipped(scene, report["sha"], "new.txt") == ships
    assert shipped(scene, report["sha"], "picture.bin") == b"\0\r\n"


@pytest.mark.more
@on_scene
def test_an_item_may_ask_for_other_line_ends(scene: Scene) -> None:
    agent = saves(unix__txt=DOS)
    report, _ = scene.play({"a": agent}, [item("a", "unix.txt", "grep -q '\r' unix.txt")])
    assert verdicts(report) == {"a": "verified"}
    assert shipped(scene, report["sha"], "unix.txt") == DOS


@pytest.mark.parametrize(
    ("base", "new", "converts", "wanted"),
    [
        (b"a\n", b"a\r\nb\r\n", False, b"a\nb\n"),
        (b"a\r\n", b"a\nb\n", False, b"a\r\nb\r\n"),
        (b"a\n", b"a\rb\r\n", False, None),
        (b"a\n", b"a\0\r\n", False, None),
        (b"a", b"a\r\n", False, None),
        (b"", b"a\r\n", True, None),
        (b"a\n", b"b\n", False, None),
        (None, b"a\r\n", True, b"a\n"),
        (None, b"a\r\n", False, None),
        (None, b"a\n", True, None),
    ],
)
def test_only_a_text_that_is_uniform_is_changed(
    base: bytes | None, new: bytes, converts: bool, wanted: bytes | None
) -> None:
    assert kept(base, new, converts=converts) == wanted
