"""An object of the base that is given another content under its right name: nothing is shipped."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.git.object_check import misnamed, names_in_index
from tests.support.interpreter import PYTHON
from tests.support.repos import Checkout
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

TEST = """\
import unittest

from calc import twice


class Twice(unittest.TestCase):
    def test_two(self):
        self.assertEqual(twice(2), 4)
"""
WEAK = TEST.replace("4", "2")
WRONG = "def twice(x):\n    return 2\n"
FILES = {"calc.py": "def twice(x):\n    return 1\n", "test_calc.py": TEST}
COMMAND = [*PYTHON, "-m", "unittest"]


def _name(text: str) -> str:
    return hashlib.sha1(_whole(text)).hexdigest()


def _whole(text: str) -> bytes:
    return f"blob {len(text)}\0{text}".encode()


def _lay(objects: Path, name: str, text: str) -> None:
    laid = objects / name[:2] / name[2:]
    laid.parent.mkdir(exist_ok=True)
    laid.unlink(missing_ok=True)
    laid.write_bytes(zlib.compress(_whole(text)))


def _in_users(scene: Scene, agent: Agent) -> None:
    del agent
    _lay(scene.repo.path / ".git/objects", _name(TEST), WEAK)


def _in_ours(scene: Scene, agent: Agent) -> None:
    del scene
    _lay(agent.folder.parents[1] / "private.git/objects", _name(TEST), WEAK)


def _in_a_pack(scene: Scene, agent: Agent) -> None:
    """A pack of the other content, in whose index it has the name of the right one."""
    other = Checkout(agent.folder.parent / "other", scene.environ)
    other.path.mkdir()
    other.git("init", "-q")
    other.write({"a": WEAK})
    other.git("add", "a")
    other.git("repack", "-q", "-a", "-d")
    made = other.git("pack-objects", "-q", ".git/x", stdin=_name(WEAK).encode()).strip()
    index = (other.path / f".git/x-{made}.idx").read_bytes()
    forged = index.replace(bytes.fromhex(_name(WEAK)), bytes.fromhex(_name(TEST)))
    first = int(_name(TEST)[:2], 16)
    counts = b"".join(int(at >= first).to_bytes(4, "big") for at in range(256))
    packs = scene.repo.path / ".git/objects/pack"
    (packs / f"pack-{made}.idx").write_bytes(forged[:8] + counts + forged[8 + 1024 :])
    (packs / f"pack-{made}.pack").write_bytes((other.path / f".git/x-{made}.pack").read_bytes())
    (scene.repo.path / ".git/objects" / _name(TEST)[:2] / _name(TEST)[2:]).unlink()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("lay", [_in_users, _in_ours, _in_a_pack])
def test_a_test_of_the_base_that_reads_differently_proves_nothing(
    tmp_path: Path, lay: Callable[[Scene, Agent], None]
) -> None:
    scene = Scene(tmp_path, FILES)

    def agent(agent: Agent) -> None:
        agent.write({"calc.py": WRONG})
        lay(scene, agent)

    report, _ = scene.play({"a": agent}, [item("a", "calc.py", COMMAND, repairCap=0)])
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    assert _name(TEST) in built(report)["a"]["error"]


@pytest.mark.more
def test_what_a_test_replaces_is_seen_before_the_ship(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES)
    objects = str(scene.repo.path / ".git/objects")
    replaces = (
        f"import pathlib\n\nlaid = pathlib.Path({objects!r}, {_name(TEST)[:2]!r},"
        f" {_name(TEST)[2:]!r})\nlaid.unlink(missing_ok=True)\n"
        f"laid.write_bytes({zlib.compress(_whole(WEAK))!r})\n\n\n"
        "def twice(x):\n    return 2 * x\n"
    )
    report, _ = scene.play(
        {"a": writes(calc__py=replaces)}, [item("a", "calc.py", COMMAND, repairCap=0)]
    )
    assert report["shipped"] == []


@pytest.mark.more
def test_objects_that_are_only_touched_are_nobodys_fault(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES)

    def agent(agent: Agent) -> None:
        agent.write({"calc.py": "def twice(x):\n    return 2 * x\n"})
        scene.repo.git("repack", "-q", "-a", "-d")

    report, _ = scene.play({"a": agent}, [item("a", "calc.py", COMMAND, repairCap=0)])
    assert report["shipped"] == ["a"]


def test_an_index_of_either_form_tells_its_names() -> None:
    name, other = bytes(range(20)), bytes(range(20, 40))
    counts = (2).to_bytes(4, "big") * 256
    new = b"\xfftOc\0\0\0\2" + counts + name + other + bytes(16)
    old = counts + b"\0\0\0\1" + name + b"\0\0\0\2" + other + bytes(40)
    assert names_in_index(new, 20) == names_in_index(old, 20) == (name.hex(), other.hex())
    assert names_in_index(b"", 20) == ()


def test_an_object_is_what_its_content_says() -> None:
    right = f"{_name(TEST)} blob {len(TEST)}\n{TEST}\n".encode()
    wrong = f"{_name(WEAK)} blob {len(TEST)}\n{TEST}\n".encode()
    assert misnamed(right + wrong + b"beef missing\n") == (_name(WEAK), "beef")
