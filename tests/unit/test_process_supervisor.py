"""The decisions of the supervisor."""

from __future__ import annotations

import pytest

from driver.execution.process_table import listed_members
from driver.execution.supervisor import candidates

# pid, parent, group
ROWS = [
    (1, 0, 1),
    (10, 1, 10),  # the supervisor
    (20, 10, 20),  # the leader
    (21, 20, 20),
    (22, 21, 22),  # moved to a group of its own
    (30, 1, 20),  # orphaned, still in the leader's group
    (31, 30, 31),
    (40, 1, 40),
    (41, 40, 40),
]


def test_without_adoption_the_tree_is_what_descends_and_what_shares_the_group() -> None:
    assert listed_members(ROWS, root=10, group=20) == [20, 21, 22, 30, 31]


@pytest.mark.parametrize(
    ("program", "path", "found"),
    [
        (b"./run", b"/bin", [b"./run"]),
        (b"run", b"/a:/b", [b"/a/run", b"/b/run"]),
        (b"run", b"/a:", [b"/a/run", b"./run"]),
    ],
)
def test_a_program_is_looked_up_in_the_path_of_the_child(
    program: bytes, path: bytes, found: list[bytes]
) -> None:
    assert candidates(program, path) == found
