"""A lazy pattern does what a compiled one does, and is compiled when it is needed."""

from __future__ import annotations

import re

import pytest

from state_store.values.lazy_pattern import lazy_pattern


def test_a_lazy_pattern_does_what_a_compiled_one_does() -> None:
    text, words = r"(?P<word>[a-z]+)-(\d+)", "AB-1, cd-22"
    lazy, real = lazy_pattern(text, re.I), re.compile(text, re.I)
    for _ in range(2):  # at its first use, and later
        assert lazy.findall(words) == real.findall(words)
        assert [m.span() for m in lazy.finditer(words)] == [m.span() for m in real.finditer(words)]
        assert lazy.sub("-", words) == real.sub("-", words)
        assert lazy.split(words) == real.split(words)
        assert (lazy.match("-"), lazy.fullmatch(words)) == (None, None)
        assert (lazy.pattern, lazy.flags, lazy.groups) == (real.pattern, real.flags, real.groups)
        assert lazy.groupindex == real.groupindex
    found = lazy.search(words)
    assert found is not None
    assert found["word"] == "AB"


def test_a_wrong_pattern_is_told_at_its_first_use() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("")
