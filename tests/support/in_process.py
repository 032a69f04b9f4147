"""A program's `main` called from a test: what a user would see, without a new interpreter."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.programs import Ran

Main = Callable[[Sequence[str]], int]


def call(main: Main, *words: str | Path) -> Ran:
    """How it ended and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ran(int(code), out.getvalue(), err.getvalue())
