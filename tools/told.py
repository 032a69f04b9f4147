"""How a small program ends: its exit code, and where it failed one sentence on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from state_store.errors import TidegateError


def told(program: str, work: Callable[[], int]) -> int:
    """The exit code of `work`; what a TidegateError says goes to stderr behind the name."""
    try:
        return work()
    except TidegateError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return error.exit_code
