"""The journal: one file an item, never shared, never half written, never believed when torn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from state_store.documents.errors import CannotRunError
from state_store.documents.files import write_json_atomic
from state_store.documents.journal import (
    FOLDER,
    entry_of,
    entry_path,
    load_entries,
    safe_slug,
    staged_entry,
    write_entry,
)


@pytest.mark.parametrize(
    ("slug", "start", "length"),
    [
        ("fix-the_Bug1", "fix-the_Bug1", 12),
        ("a" * 200, "a" * 200, 200),
        ("a" * 201, "a" * 200 + "-", 209),
        ("../../etc", "etc-", 12),
        ("caf\u00e9 x", "cafx-", 13),
        ("caf\udce9", "caf-", 12),
    ],
)
def test_a_slug_is_a_safe_file_name_and_changed_ones_are_marked(
    slug: str, start: str, length: int
) -> None:
    assert safe_slug(slug).startswith(start)
    assert len(safe_slug(slug)) == length


def test_slugs_that_lose_the_same_letters_stay_apart() -> None:
    assert len({safe_slug(slug) for slug in ("ab", "a/b", "a.b", "ab.")}) == 4


@pytest.mark.parametrize("slug", ["", "..", "/", "\u00e9"])
def test_a_slug_of_which_nothing_is_left_is_an_error(slug: str) -> None:
    with pytest.raises(ValueError, match="no letter or digit"):
        safe_slug(slug)


def test_two_repositories_of_one_name_do_not_share_an_entry(tmp_path: Path) -> None:
    write_entry(tmp_path, "s", "verified", {"verified": True}, repo="/x/proj")
    write_entry(tmp_path, "s", "failed", {"testExit": 1}, repo="/y/proj")
    write_entry(tmp_path, "s", "dispatched", {})
    entries, unreadable = load_entries(tmp_path)
    assert {key: entry["verified"] for key, entry in entries.items()} == {
        ("/x/proj", "s"): True,
        ("/y/proj", "s"): False,
        (None, "s"): False,
    }
    assert unreadable == ()


def test_the_longest_names_fit_a_file_system(tmp_path: Path) -> None:
    path = write_entry(tmp_path, "s" * 500, "failed", {}, repo=Path("/r") / ("p" * 200))
    assert len(path.name) <= 255


@pytest.mark.parametrize("repo", ["/", "/x/\u00e9", "/x/.."])
def test_a_repository_without_a_plain_name_has_a_file_too(tmp_path: Path, repo: str) -> None:
    assert entry_path(tmp_path, "s", repo).parent == tmp_path / "journal"


def test_an_entry_has_the_documented_shape(tmp_path: Path) -> None:
    data = {"verified": True, "testExit": 0, "repairs": 1, "error": None, "contentHash": "c"}
    path = write_entry(tmp_path, "s", "verified", data | {"timestamp": 5.5}, repo="/r")
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert (
        json.loads(text)
        == {"slug": "s", "repo": "/r", "phase": "verified", "timestamp": 5.5} | data
    )


def test_data_cannot_make_an_entry_about_another_item(tmp_path: Path) -> None:
    write_entry(tmp_path, "s", "failed", {"slug": "t", "repo": "/r", "phase": "verified"})
    entry = load_entries(tmp_path)[0][None, "s"]
    assert entry["phase"] == "failed"
    assert "repo" not in entry
    assert entry["timestamp"] > 0


def test_the_latest_of_two_files_about_one_item_counts(tmp_path: Path) -> None:
    write_entry(tmp_path, "s", "failed", {"timestamp": 20}, repo="/x/proj")
    older = {"slug": "s", "repo": "/x/proj", "phase": "verified", "timestamp": 10, "verified": True}
    for name in ("proj--s.json", "a.json", "z.json"):
        (tmp_path / "journal" / name).write_text(json.dumps(older), encoding="utf-8")
    assert load_entries(tmp_path)[0]["/x/proj", "s"]["phase"] == "failed"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"slug": "s", "phase": "verified", "timestamp": 1, "verified": "yes"}',
        '{"slug": "s", "phase": "verified", "timestamp": true, "verified": true}',
        '{"slug": "s", "phase": "verified", "timestamp": NaN, "verified": true}',
        '{"slug": "s", "repo": 5, "phase": "verified", "timestamp": 1, "verified": true}',
    ],
)
def test_a_file_that_is_no_entry_is_named_and_not_believed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "journal" / "s.json"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    assert load_entries(tmp_path) == ({}, (path,))


def test_an_entry_torn_at_any_byte_is_not_believed(tmp_path: Path) -> None:
    path = write_entry(tmp_path, "s", "verified", {"verified": True})
    whole = path.read_bytes().rstrip()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert load_entries(tmp_path) == ({}, (path,))


def test_no_journal_is_an_empty_one_and_one_that_cannot_be_listed_is_an_error(
    tmp_path: Path,
) -> None:
    assert load_entries(tmp_path) == ({}, ())
    (tmp_path / "journal").touch()
    with pytest.raises(CannotRunError, match="journal"):
        load_entries(tmp_path)


def test_what_is_written_together_is_there_for_all_or_for_none(tmp_path: Path) -> None:
    write_entry(tmp_path, "a", "verified", {"timestamp": 1.0})
    entries = [entry_of(slug, "shipping", {"commit": slug * 40, "timestamp": 2.0}) for slug in "ab"]
    path = tmp_path / FOLDER / "together.shipping-1.json"  # as an earlier version wrote it
    assert load_entries(tmp_path)[0][None, "a"]["phase"] == "verified"
    write_json_atomic(path, entries)
    found, unreadable = load_entries(tmp_path)
    assert {key: entry["phase"] for key, entry in found.items()} == {
        (None, "a"): "shipping",
        (None, "b"): "shipping",
    }
    assert unreadable == ()
    write_entry(tmp_path, "b", "shipped", {"timestamp": 3.0})
    assert load_entries(tmp_path)[0][None, "b"]["phase"] == "shipped"
    path.write_text(json.dumps([*entries, {"slug": "c"}]))
    assert load_entries(tmp_path)[1] == (path,)
    assert load_entries(tmp_path)[0][None, "a"]["phase"] == "verified"


def test_a_staged_entry_counts_from_its_swap_on_and_leaves_nothing_when_dropped(
    tmp_path: Path,
) -> None:
    write_entry(tmp_path, "s", "dispatched", {})
    dropped, kept = (staged_entry(tmp_path, "s", phase, {}) for phase in ("failed", "verified"))
    assert load_entries(tmp_path)[0][None, "s"]["phase"] == "dispatched"
    kept.swap_in()
    dropped.drop()
    assert load_entries(tmp_path)[0][None, "s"]["phase"] == "verified"
    assert [path.name for path in (tmp_path / "journal").iterdir()] == ["s.json"]


def test_a_list_in_the_file_of_one_item_is_no_entry(tmp_path: Path) -> None:
    path = write_entry(tmp_path, "a", "verified", {})
    path.write_text(json.dumps([entry_of("a", "verified", {})]))
    assert load_entries(tmp_path) == ({}, (path,))
