"""How many lines of real code are taken for secrets, and how fast it is read."""

from __future__ import annotations

import sysconfig
import time
from collections import Counter
from pathlib import Path

import pytest

from tools.secret_rules.search import scan_blob

pytestmark = pytest.mark.bench


def test_the_standard_library_as_a_corpus() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    files = [p for p in library.rglob("*.py") if "site-packages" not in p.parts]
    size, took = 0, 0.0
    found: Counter[str] = Counter()
    for path in files:
        data = path.read_bytes()
        began = time.perf_counter()
        found.update(match.rule for match in scan_blob(path.name, data))
        took += time.perf_counter() - began
        size += len(data)
    print(
        f"\n{len(files)} files, {size / 1e6:.0f} MB, {size / 1e6 / took:.1f} MB/s:"
        f" {sum(found.values())} findings {dict(found)}"
    )
