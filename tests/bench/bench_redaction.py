"""How long the search for known secrets takes in a long output."""

from __future__ import annotations

import time

import pytest

from state_store.redaction.redactor import Redactor
from tests.support.secrets import noise

pytestmark = pytest.mark.bench

SIZE = 10_000_000


@pytest.mark.parametrize("count", [1, 5, 50])
def test_ten_megabytes_of_output(count: int) -> None:
    secrets = {f"KEY_{n}": noise(40, n) for n in range(count)}
    clean = (" ".join(noise(9, n) for n in range(1000)).encode() * 1100)[:SIZE]
    step = 1000
    parts = [clean[at : at + step] for at in range(0, SIZE, step)]
    dirty = b"".join(p + secrets[f"KEY_{n % count}"].encode() for n, p in enumerate(parts))
    redactor = Redactor(secrets)
    redactor.text("made ready")
    for name, data in (("clean", clean), ("10,000 secrets", dirty)):
        began = time.process_time()
        redactor.data(data)
        took = time.process_time() - began
        print(f"\n{count} known secrets, 10 MB {name}: {took * 1000:.0f} ms", end="")
        assert took < 20
