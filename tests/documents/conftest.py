"""What the tests of the documents share."""

from __future__ import annotations

import pytest

from tests.documents.shop import Shop, make_shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return make_shop(tmp_path_factory.mktemp("shop"))
