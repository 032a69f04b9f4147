"""What people wrote into an item stops that item at most, and stays as they wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.publication_status import PublicationStatus, Shipped, settled_fields
from driver.backlog.retry_policy import RetryPolicy, after_try
from driver.domain.results import Verdict
from driver.pull_requests.forge import NotMadeError, found_in
from driver.terminal.safe_text import with_note
from state_store.documents.files import write_text_atomic
from state_store.documents.item_id import id_of

HALF = "\ud800"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", [HALF, f"T-{HALF}", f"\u00e9{HALF}"])
def test_half_a_surrogate_pair_names_nothing_that_can_be_kept(name: str) -> None:
    assert id_of({"id": name}) is None
    assert id_of({"id": "\u00e9\U0001f600"}) == "\u00e9\U0001f600"


def test_half_a_surrogate_pair_in_a_text_is_shown_as_unknown(tmp_path: Path) -> None:
    write_text_atomic(tmp_path / "STATE.md", f"a {HALF} b \u00e9\n")
    assert (tmp_path / "STATE.md").read_text(encoding="utf-8") == "a ? b \u00e9\n"


@pytest.mark.parametrize("key", ["commit", "onto", "merged"])
@pytest.mark.parametrize("value", ["--all", "-x", "HEAD~1", "a b", "a\nb", "a\0", "^main"])
def test_what_can_be_no_commit_is_never_asked_of_git(key: str, value: str) -> None:
    kept = Shipped.of({"shipped": {"wave": "w", key: value}})
    assert kept == Shipped(wave="w")


@pytest.mark.parametrize("notes", [["mine"], {"by": "me"}, 5, False])
def test_notes_that_are_no_text_stay_as_they_were_written(notes: Any) -> None:
    shipped = Shipped("wave-1", "c1", "wave/x")
    item = {"status": "in_progress", "shipped": shipped.to_json(), "notes": notes}
    assert settled_fields(item, shipped, PublicationStatus.DROPPED)["notes"] == notes
    tried = {"status": "todo", "notes": notes, "attempts": 2}
    assert after_try(tried, Verdict.FAILED, "red", RetryPolicy(3, 60, 3600), NOW)["notes"] == notes


def test_notes_are_added_to() -> None:
    assert with_note(None, "[w]") == with_note("", "[w]") == "[w]"
    assert with_note("mine", "[w]") == "mine [w]"


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"a":' * 100_000])
def test_an_answer_nested_without_end_is_one_that_nobody_can_read(answer: str) -> None:
    with pytest.raises(NotMadeError):
        found_in(answer, "")
