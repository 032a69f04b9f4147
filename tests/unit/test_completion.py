"""What a model is told, and which of the files in its patch may be written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.backends.http.patch_protocol import (
    WORKER_PATCH_SCHEMA,
    ScopeError,
    Shown,
    file_line,
    nudge,
    opening,
    patch_files,
)
from driver.domain.ownership import parse_owned


def shown(*names: str, hidden: tuple[str, ...] = ()) -> Shown:
    return Shown(tuple(parse_owned(name) for name in names), (), frozenset(hidden))


def patch(*files: tuple[str, str]) -> dict[str, Any]:
    return {"files": [{"path": path, "contents": text} for path, text in files]}


def test_a_file_is_one_line_of_json() -> None:
    line = file_line("a.txt", "one\ntwo \u00e9", "one\ntwo \u00e9".encode())
    assert "\n" not in line
    record = json.loads(line)
    assert list(record) == ["path", "contents", "sha256"]
    assert record["contents"] == "one\ntwo \u00e9"
    assert len(record["sha256"]) == 64


def test_a_file_that_does_not_exist_has_no_contents() -> None:
    assert json.loads(file_line("a.txt", None, None)) == {
        "path": "a.txt",
        "contents": None,
        "sha256": None,
    }


def test_the_model_is_told_schema_owned_set_and_files() -> None:
    seen = Shown((parse_owned("a.txt"), parse_owned("docs/")), (file_line("a.txt", "x", b"x"),))
    system, user = opening("Do it.", seen, None)
    owned = system["content"].partition("owned set:")[2]
    assert json.loads(owned) == ["a.txt", "docs/"]
    assert json.dumps(WORKER_PATCH_SCHEMA) in system["content"]
    assert user["content"].startswith("Do it.\n")
    assert json.loads(user["content"].splitlines()[-1])["path"] == "a.txt"


def test_who_judges_is_told_the_schema_of_the_judgement() -> None:
    system, _ = opening("Judge.", shown("a.txt"), {"type": "object", "title": "Verdict"})
    assert '"Verdict"' in system["content"]
    assert "change nothing" in system["content"]


def test_half_a_character_in_a_prompt_is_sent_as_a_mark() -> None:
    _, user = opening("a\ud800b", shown(), None)
    assert user["content"] == "a?b"


def test_a_nudge_says_what_was_wrong() -> None:
    assistant, user = nudge("it lacks 'files'")
    assert assistant["role"] == "assistant"
    assert "Previous response was not valid JSON" in user["content"]
    assert "it lacks 'files'" in user["content"]
    assert "return ONLY the JSON object" in user["content"]


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("a.txt", "a.txt"),
        ("./a.txt", "a.txt"),
        ("docs/new.md", "docs/new.md"),
        ("docs\\deep\\new.md", "docs/deep/new.md"),
    ],
)
def test_owned_files_may_be_written(path: str, written: str) -> None:
    assert patch_files(patch((path, "x")), shown("a.txt", "docs/")) == {written: b"x"}


@pytest.mark.parametrize(
    "path",
    [
        "b.txt",
        "A.txt",
        "a.txt/",
        "a.txt/b",
        "docs",
        "docs/",
        "docs/../b.txt",
        "../a.txt",
        "/a.txt",
        "C:\\a.txt",
        "docs/.git/config",
        "docs/.g\u200cit/config",
        "docs/con.txt",
        "docs/a:b",
        "docs/trailing.",
        "docs/hidden.png",
        "docs/" + "x" * 300,
        "docs/\ud800",
        "",
        ".",
    ],
)
def test_no_other_path_may_be_written(path: str) -> None:
    seen = shown("a.txt", "docs/", hidden=("docs/hidden.png",))
    with pytest.raises(ScopeError, match=r"^out-of-scope: "):
        patch_files(patch(("a.txt", "fine"), (path, "x")), seen)


def test_all_paths_out_of_scope_are_named_in_ascii() -> None:
    with pytest.raises(ScopeError) as caught:
        patch_files(patch(("b.txt", ""), ("c.txt", "")), shown("a.txt"))
    assert "'b.txt', 'c.txt'" in str(caught.value)


@pytest.mark.parametrize("other", ["a.txt", "./a.txt"])
def test_a_file_twice_is_no_patch(other: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        patch_files(patch(("a.txt", "1"), (other, "2")), shown("a.txt"))


def test_two_names_that_some_systems_take_for_one_are_no_patch() -> None:
    with pytest.raises(ValueError, match="twice"):
        patch_files(patch(("d/a.txt", "1"), ("d/A.txt", "2")), shown("d/"))


def test_half_a_character_is_no_content() -> None:
    with pytest.raises(ValueError, match="half a character"):
        patch_files(patch(("a.txt", "\ud800")), shown("a.txt"))
