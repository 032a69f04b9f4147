"""A folder called like a target of make is in its way only where make would look for it."""

from __future__ import annotations

import pytest

from driver.policy.shadowing import is_made

PHONY = ".PHONY: test check\ntest:\n\tpytest\n"
OTHER = "test:\n\tpytest\n"


@pytest.mark.parametrize(
    ("command", "makefiles", "taken"),
    [
        ("make test", {"Makefile": PHONY}, False),
        ("make test", {"Makefile": OTHER}, True),
        ("make test", {"Makefile": PHONY, "GNUmakefile": OTHER}, True),
        ("make test", {"Makefile": OTHER, "GNUmakefile": PHONY}, False),
        ("make -f other.mk test", {"Makefile": PHONY, "other.mk": OTHER}, True),
        ("make -kfother.mk test", {"Makefile": PHONY, "other.mk": OTHER}, True),
        ("make --makef=other.mk test", {"Makefile": PHONY, "other.mk": OTHER}, True),
        ("make test", {"Makefile": "# .PHONY: test\n" + OTHER}, True),
        ("make test", {"Makefile": "include other.mk\n", "other.mk": PHONY}, True),
    ],
)
def test_a_new_folder_test_is_taken_by_make_unless_it_is_phony(
    command: str, makefiles: dict[str, str], *, taken: bool
) -> None:
    def read(path: str) -> str:
        return makefiles.get(path, "")

    assert is_made("test/unit/a.py", command, ".", makefiles.keys(), read) is taken
