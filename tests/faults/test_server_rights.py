"""The doctor's line about the server: reached, the user's rights, round trip, clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.diagnostics.places import check_database
from state_store.postgres.store import PostgresStore
from state_store.sql.addresses import Address, keep_rows
from tests.support.postgres import Server

GUEST = "guest"


@pytest.fixture
def address(postgres: Server) -> Iterator[Address]:
    """A schema of the owner, for the eyes of a guest."""
    known = postgres.ask(f"SELECT 1 FROM pg_roles WHERE rolname = '{GUEST}'")
    if not known:
        postgres.ask(f"CREATE ROLE {GUEST} LOGIN")
    postgres.ask(f"REVOKE CREATE ON DATABASE postgres FROM {GUEST}")
    yield Address(postgres.url, postgres.new_schema())
    postgres.ask(f"REVOKE CREATE ON DATABASE postgres FROM {GUEST}")


def line(address: Address, postgres: Server, folder: Path, user: str = GUEST) -> tuple[str, str]:
    """Level and words of the doctor, as this user."""
    url = address.url.replace(f"user={postgres.user}", f"user={user}")
    keep_rows(folder, Address(url, address.schema))
    found = check_database(folder)
    keep_rows(folder, None)
    return found.level, f"{found.detail}; {found.remedy}"


def test_the_owner_may_write_and_sees_version_and_round_trip(
    postgres: Server, address: Address, tmp_path: Path
) -> None:
    for _ in range(2):
        level, told = line(address, postgres, tmp_path, postgres.user)
        assert level == "ok", told
        assert re.search(r"on PostgreSQL \d+\.\d+, round trip \d+\.\d ms", told)
        PostgresStore(tmp_path / "tracker_events.db", address).close()


def test_a_missing_right_fails_before_a_run_does(
    postgres: Server, address: Address, tmp_path: Path
) -> None:
    schema = f'"{address.schema}"'
    level, told = line(address, postgres, tmp_path)
    assert (level, "may not write" in told) == ("fail", True), told
    postgres.ask(f"GRANT CREATE ON DATABASE postgres TO {GUEST}")
    assert line(address, postgres, tmp_path)[0] == "ok", "it may make the schema"
    PostgresStore(tmp_path / "tracker_events.db", address).close()
    postgres.ask(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {GUEST}")
    postgres.ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {GUEST}")
    level, told = line(address, postgres, tmp_path)
    assert (level, "may not write" in told) == ("fail", True), "tables of another user"
    postgres.ask(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {GUEST}")
    assert line(address, postgres, tmp_path)[0] == "fail", "the sequences are left"
    postgres.ask(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {GUEST}")
    postgres.ask(f"REVOKE CREATE ON SCHEMA {schema} FROM {GUEST}")
    assert line(address, postgres, tmp_path)[0] == "ok"


def test_a_server_that_is_away_is_one_sentence(postgres: Server, tmp_path: Path) -> None:
    gone = Address(postgres.url.replace("host=", "host=/nowhere"), "x")
    level, told = line(gone, postgres, tmp_path)
    assert (level, "cannot be reached" in told) == ("fail", True), told
