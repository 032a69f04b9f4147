"""Copies that are shown by mounts: where a command inside could not change them, there are none."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from driver.filesystem.tree import remove_tree
from driver.preparation.kept_copies import KeptCopies
from driver.preparation.layered_copies import LayeredCopies
from driver.walls.wall import Layer

USER, OTHER_GROUP = 65534, 100
FILES = 300  # a program copies that many, and keeps their groups

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user"
)


def writes(place: Path, layer: Layer) -> bool:
    del place
    (layer.upper / "file").write_text("changed\n", encoding="ascii")
    return True


def usable(top: Path, group: int) -> bool:
    """The answer for an ordinary user whose copied files have this group."""
    source = top / "deps"
    source.mkdir()
    for number in range(FILES):
        (source / str(number)).write_text("x", encoding="ascii")
    for path in (source, *source.iterdir()):
        os.chown(path, USER, group)
    os.chown(top, USER, USER)
    if (child := os.fork()) == 0:
        answer = 2
        try:
            os.setgroups([OTHER_GROUP])
            os.setgid(USER)
            os.setuid(USER)
            copies = KeptCopies(top, ("deps",), {"PATH": os.defpath}, top / "spare")
            answer = int(LayeredCopies(copies, top / "layers", writes, True).are_usable)
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.parametrize(("group", "expected"), [(USER, True), (OTHER_GROUP, False)])
def test_files_of_a_further_group_of_the_user_are_copied_for_each_place(
    group: int, expected: bool
) -> None:
    top = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        assert usable(top, group) is expected
    finally:
        remove_tree(top)
