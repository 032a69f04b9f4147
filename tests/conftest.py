"""What tests of processes share in every folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Marked


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    """Commands that are ended with the test, whatever becomes of it."""
    found = Marked(tmp_path)
    yield found
    found.end()
