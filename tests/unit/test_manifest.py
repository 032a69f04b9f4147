"""A manifest: every problem told at once, nothing guessed, nothing of the caller's changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from driver.domain.work_item import (
    MAX_ITEMS,
    ManifestError,
    WorkItem,
    check_item,
    parse_manifest,
)
from state_store.documents.errors import ExitCode


def an_item(**changes: Any) -> dict[str, Any]:
    item = {"slug": "x", "prompt": "do it", "ownsFiles": ["a.py"], "testCmd": "true"}
    return {k: v for k, v in {**item, **changes}.items() if v != "absent"}


def parse(*items: Any, **top: Any) -> Any:
    return parse_manifest({"items": list(items), **top}, new_wave_id=lambda: "made-up")


def problems_of(*items: Any, **top: Any) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as refusal:
        parse(*items, **top)
    assert refusal.value.exit_code is ExitCode.BAD_INPUT
    return refusal.value.problems


def test_a_small_item_gets_the_defaults() -> None:
    manifest = parse(an_item())
    assert manifest.wave_id == "made-up"
    assert manifest.items == (WorkItem("x", "do it", ("a.py",), "true"),)
    assert manifest.items[0].effort == "normal"
    assert manifest.items[0].repair_cap is None


def test_every_field_is_carried_and_written_back() -> None:
    given = {
        "slug": "x",
        "id": "T-1",
        "title": "A title",
        "prompt": "do it",
        "ownsFiles": ["a.py", "docs/"],
        "testCmd": ["python", "-m", "pytest", ""],
        "workDir": "sub",
        "repo": "/some/repo",
        "selfCheckCmd": "make lint",
        "label": "L",
        "phase": "build",
        "effort": "thorough",
        "model": "haiku",
        "verificationTier": 2,
        "repairCap": 0,
        "requireAdversarialReview": False,
        "spotCheckFrac": 0.5,
        "validateAllJson": True,
        "notes": {"mine": [1]},
    }
    manifest = parse(given, wave_id="w-1", wave_description="all of it")
    (item,) = manifest.items
    assert item.to_json() == given
    assert manifest.to_json() == {
        "wave_id": "w-1",
        "wave_description": "all of it",
        "items": [given],
    }
    assert parse_manifest(manifest.to_json(), new_wave_id=lambda: "unused") == manifest
    assert hash(item)


def test_the_callers_objects_stay_as_they_were() -> None:
    document = {"items": [an_item(extra={"a": [1]}, workDir=None)], "wave_id": None}
    before = copy.deepcopy(document)
    parse_manifest(document, new_wave_id=lambda: "w")
    assert document == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"testCmd": "absent"}, "testCmd is missing: without a test nothing can be proven"),
        ({"testCmd": None}, "testCmd is missing:"),
        ({"testCmd": "absent", "test_cmd": "x"}, "found 'test_cmd'; write 'testCmd'"),
        ({"testCmd": ""}, "testCmd is empty"),
        ({"testCmd": "  "}, "testCmd is empty"),
        ({"testCmd": []}, "testCmd is empty"),
        ({"testCmd": ["", "x"]}, "testCmd is empty"),
        ({"testCmd": ["x", 1]}, "testCmd must be a text"),
        ({"testCmd": {"run": "x"}}, "testCmd must be a text or a list of texts"),
        ({"testCmd": "a\0b"}, "testCmd holds a NUL"),
        ({"selfCheckCmd": 5}, "selfCheckCmd must be a text or a list of texts"),
        ({"prompt": "absent"}, "prompt is missing"),
        ({"prompt": " \n"}, "prompt is empty"),
        ({"prompt": 3}, "prompt must be a text"),
        ({"prompt": "p" * 1_000_001}, "prompt is longer than"),
        ({"prompt": "\ud800"}, "prompt is not valid Unicode"),
        ({"slug": "absent"}, "slug is missing"),
        ({"slug": "///"}, "slug has no usable character"),
        ({"slug": "\u65e5\u672c"}, "slug has no usable character"),
        ({"slug": "s" * 1001}, "slug is longer than"),
        ({"slug": 7}, "slug must be a text"),
        ({"ownsFiles": "absent"}, "ownsFiles is missing"),
        ({"ownsFiles": "absent", "owns_files": ["a"]}, "found 'owns_files'"),
        ({"ownsFiles": []}, "ownsFiles is empty"),
        ({"ownsFiles": "a.py"}, "ownsFiles must be a list"),
        ({"ownsFiles": ["a.py", 3]}, "every entry of ownsFiles must be a file name"),
        ({"ownsFiles": [" "]}, "every entry of ownsFiles must be a file name"),
        ({"ownsFiles": ["../a"]}, "ownsFiles entry '../a' cannot be owned: it climbs out"),
        ({"ownsFiles": [".git/x"]}, "cannot be owned: git's own folder"),
        ({"ownsFiles": ["a"] * 10_001}, "more than 10000 entries"),
        ({"workDir": "../x"}, "workDir '../x' cannot be used: it climbs out"),
        ({"workDir": ""}, "workDir is empty"),
        ({"workDir": 1}, "workDir must be a text"),
        ({"repo": ""}, "repo is empty"),
        ({"repo": ["x"]}, "repo must be a text"),
        ({"id": ""}, "id must be a text or a whole number"),
        ({"id": True}, "id must be a text or a whole number"),
        ({"id": 10**400}, "id must be a text or a whole number"),
        ({"title": ["x"]}, "title must be a text"),
        ({"phase": True}, "phase must be a text"),
        ({"effort": "heroic"}, "effort must be one of quick, normal, thorough"),
        ({"effort": ["quick"]}, "effort must be one of"),
        ({"model": ""}, "model is empty"),
        ({"model": "--yolo"}, "model must be a line of text that does not start with -"),
        ({"model": "a\nb"}, "model must be a line of text that does not start with -"),
        ({"verificationTier": 5}, "verificationTier must be one of 1, 2, 3, 4"),
        ({"verificationTier": True}, "verificationTier must be one of"),
        ({"repairCap": -1}, "repairCap must be a whole number from 0"),
        ({"repairCap": 1.5}, "repairCap must be a whole number from 0"),
        ({"requireAdversarialReview": "yes"}, "requireAdversarialReview must be true or false"),
        ({"spotCheckFrac": 1.1}, "spotCheckFrac must be a number from 0 to 1"),
        ({"spotCheckFrac": float("nan")}, "spotCheckFrac must be a number from 0 to 1"),
        ({"spotCheckFrac": False}, "spotCheckFrac must be a number from 0 to 1"),
        ({"validateAllJson": 1}, "validateAllJson must be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_its_item_and_key(changes: dict[str, Any], said: str) -> None:
    (problem,) = problems_of(an_item(), an_item(**{"slug": "y", **changes}))
    assert problem.startswith("item 2")
    assert said in problem


@pytest.mark.parametrize(
    "changes",
    [
        {"workDir": "/abs/olute", "ownsFiles": ["a.py"]},
        {"workDir": "C:\\proj"},
        {"workDir": "sub\\x"},
        {"id": 7, "title": None, "phase": 3, "label": None, "repo": None},
        {"slug": "fix: a/b c"},
        {"testCmd": ("python", "x.py")},
        {"anything": {"deep": [1, 2]}, "priority": "P1"},
        {"spotCheckFrac": 0},
        {"spotCheckFrac": 1},
    ],
)
def test_what_people_write_is_accepted(changes: dict[str, Any]) -> None:
    assert parse(an_item(**changes)).items


def test_all_problems_are_told_at_once() -> None:
    found = problems_of(
        an_item(testCmd="", ownsFiles=["/x", "../y"]),
        5,
        an_item(slug="", prompt=""),
        wave_id="../x",
    )
    assert len(found) == 7
    assert found[1].startswith("item 1 (slug 'x'): testCmd is empty")
    assert found[4] == "item 2: it must be an object"


def test_ten_thousand_problems_stay_readable() -> None:
    found = problems_of(*[{}] * MAX_ITEMS)
    assert len(found) == 101
    assert found[-1] == f"and {4 * MAX_ITEMS - 100} more problems"


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {}, "the slug 'x' is used twice"),
        ({}, {"slug": "X"}, "the slug 'X' is used twice (also as 'x')"),
        ({"id": "1"}, {"slug": "y", "id": 1}, "the id '1' is used twice"),
    ],
)
def test_items_that_would_share_files_or_status_are_refused(
    first: dict[str, Any], second: dict[str, Any], said: str
) -> None:
    (problem,) = problems_of(an_item(**first), an_item(**second))
    assert problem.startswith(said)


def test_items_without_an_id_may_be_many() -> None:
    assert len(parse(an_item(), an_item(slug="y")).items) == 2


@pytest.mark.parametrize("wave_id", ["", "../x", "a b", "a/b", "x" * 101, 1.5, ["w"], "-x", "a..b"])
def test_a_wave_id_that_cannot_name_a_branch_is_refused(wave_id: Any) -> None:
    assert "wave_id" in problems_of(an_item(), wave_id=wave_id)[0]


@pytest.mark.parametrize("wave_id", ["w", "wave-24", "2026.01.02_a", 24])
def test_an_ordinary_wave_id_is_kept(wave_id: Any) -> None:
    assert parse(an_item(), wave_id=wave_id).wave_id == str(wave_id)


@pytest.mark.parametrize(
    "document", [None, [], "x", 5, {}, {"items": {}}, {"items": []}, {"items": None}]
)
def test_a_document_without_items_is_refused(document: object) -> None:
    with pytest.raises(ManifestError, match="items"):
        parse_manifest(document, new_wave_id=lambda: "w")


def test_too_many_items_are_refused() -> None:
    items = [an_item(slug=f"s{n}") for n in range(MAX_ITEMS + 1)]
    assert "more than 10000; split the wave" in problems_of(*items)[0]


def test_reasons_are_the_words_programs_know() -> None:
    broken = {"slug": "", "prompt": None, "testCmd": [], "ownsFiles": [3, "../x"], "effort": 5}
    _, problems = check_item(broken)
    assert [problem.reason for problem in problems] == [
        "missing_or_empty_slug",
        "missing_or_empty_prompt",
        "missing_or_empty_testCmd",
        "invalid_effort",
        "invalid_ownsFiles_entries",
        "invalid_path",
    ]
    assert check_item({})[1][0].reason == "no_file_ownership"
