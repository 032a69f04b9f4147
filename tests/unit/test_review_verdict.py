"""What a reviewer's answer counts as, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from driver.agents.review_verdict import (
    MAX_FINDINGS,
    VERDICT_SCHEMA,
    answer_of,
    judge,
    read_verdict,
)
from driver.backend_api.driver import FAILURE_AGENT, WorkerResult
from driver.backend_api.json_schema import is_strict
from driver.domain.results import Verdict
from driver.domain.reviews import (
    Finding,
    Review,
    ReviewWord,
    from_json,
    review_word,
    settled_by,
)

NONCE = "5f" * 16
APPROVED, CHANGES, UNDECIDED = (
    ReviewWord.APPROVED,
    ReviewWord.CHANGES_REQUESTED,
    ReviewWord.UNDECIDED,
)


def finding(**more: Any) -> dict[str, Any]:
    return {"file": "a", "line": 3, "severity": "major", "why": "w", "check": "c", **more}


def answer(verdict: str = "approve", **more: Any) -> dict[str, Any]:
    return {"nonce": NONCE, "verdict": verdict, "summary": "s", "findings": [], **more}


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (answer(), APPROVED),
        (answer(summary=""), APPROVED),
        (answer(findings=[finding(severity="minor"), finding(severity="note")]), APPROVED),
        (answer("request_changes", findings=[finding()]), CHANGES),
        (answer("request_changes", findings=[finding(line=None)]), CHANGES),
        (answer("request_changes", summary="it is wrong"), CHANGES),
        (answer("request_changes", summary="  "), UNDECIDED),
        (answer(findings=[finding()]), UNDECIDED),
        (answer(findings=[finding(severity="critical")]), UNDECIDED),
        (answer(nonce=NONCE.upper()), UNDECIDED),
        (answer(nonce=NONCE + " "), UNDECIDED),
        (answer(nonce="\udc80"), UNDECIDED),
        (answer(nonce=None), UNDECIDED),
        (answer("APPROVE"), UNDECIDED),
        (answer("approved"), UNDECIDED),
        (answer(True), UNDECIDED),  # type: ignore[arg-type]
        (answer(findings={}), UNDECIDED),
        (answer(findings=["bad"]), UNDECIDED),
        (answer("request_changes", findings=[finding(line="3")]), UNDECIDED),
        (answer("request_changes", findings=[finding(severity="terrible")]), UNDECIDED),
        (answer(comment="x"), UNDECIDED),
        *(({k: v for k, v in answer().items() if k != key}, UNDECIDED) for key in answer()),
        (None, UNDECIDED),
        ("approve", UNDECIDED),
        ([answer()], UNDECIDED),
        ({}, UNDECIDED),
    ],
)
def test_only_a_whole_answer_with_the_nonce_decides(said: object, word: ReviewWord) -> None:
    found = read_verdict(said, NONCE)
    assert found.word is word
    assert bool(found.reason) is (word is UNDECIDED)


def test_the_schema_is_one_that_servers_take_as_strict() -> None:
    assert is_strict(VERDICT_SCHEMA)


def test_what_a_reviewer_writes_is_bounded_and_made_fit_to_show() -> None:
    many = [finding(why="x" * 99_999, file="\x1b[2J\n")] * (MAX_FINDINGS + 5)
    found = read_verdict(answer("request_changes", findings=many), NONCE)
    assert len(found.findings) == MAX_FINDINGS
    assert "5 more findings" in found.summary
    assert len(found.findings[0].why) < 2_000
    assert found.findings[0].file == "\\x1b[2J\\n"


@pytest.mark.parametrize(
    "result",
    [
        WorkerResult("w", ok=False, structured=answer(), failure=FAILURE_AGENT, error="exit 1"),
        WorkerResult("w", ok=True, text="approve " + NONCE),
        WorkerResult("w", ok=True, structured=None),
    ],
)
def test_a_dispatch_that_did_not_end_well_or_said_nothing_decides_nothing(
    result: WorkerResult,
) -> None:
    assert answer_of(result, NONCE).word is UNDECIDED


def test_a_reviewer_that_edits_what_it_reads_decides_nothing() -> None:
    result = WorkerResult("w", ok=True, structured=answer())
    assert answer_of(result, NONCE).word is APPROVED
    assert answer_of(result, NONCE, ("a.txt",)).word is UNDECIDED


def a_review(word: ReviewWord, tree: str = "t", number: int = 1, **more: Any) -> Review:
    return Review(number, tree, word, summary="s", **more)


@pytest.mark.parametrize(
    ("word", "green", "number", "verdict", "reason"),
    [
        (APPROVED, True, 1, Verdict.VERIFIED, ""),
        (APPROVED, True, 9, Verdict.VERIFIED, ""),
        (APPROVED, False, 1, Verdict.FAILED, "approval_withheld: "),
        (UNDECIDED, True, 1, Verdict.UNDECIDED, "review undecided: "),
        (UNDECIDED, False, 9, Verdict.UNDECIDED, "review undecided: "),
        (CHANGES, True, 2, None, ""),
        (CHANGES, True, 3, Verdict.FAILED, "round_cap: "),
    ],
)
def test_a_review_and_the_gate_together_judge(
    word: ReviewWord, green: bool, number: int, verdict: Verdict | None, reason: str
) -> None:
    found = judge(a_review(word), gate_green=green, number=number, repair_cap=2)
    assert (found.verdict if found else None) is verdict
    assert found is None or found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("reviews", "tree", "word"),
    [
        ([], "t", "undecided"),
        ([a_review(APPROVED)], "t", "approved"),
        ([a_review(APPROVED)], "another", "undecided"),
        ([a_review(CHANGES), a_review(APPROVED, "u")], "u", "approved"),
        ([a_review(CHANGES)], "u", "changes_requested"),
        ([a_review(CHANGES), a_review(UNDECIDED, "u")], "u", "undecided"),
    ],
)
def test_the_reports_word_is_that_on_the_very_tree(
    reviews: list[Review], tree: str, word: str
) -> None:
    assert review_word(reviews, tree, required=True, mode="policy") == word
    assert review_word(reviews, tree, required=True, mode="off") == "off"
    assert review_word(reviews, tree, required=False, mode="policy") == "not_required"
    assert review_word(reviews, tree, required=False, mode="always") == word


def test_only_what_decided_on_a_tree_is_remembered_of_it() -> None:
    reviews = [a_review(CHANGES, "t", 1), a_review(UNDECIDED, "u", 2), a_review(APPROVED, "v", 3)]
    assert settled_by(reviews, "t") is reviews[0]
    assert settled_by(reviews, "u") is None
    assert settled_by(reviews, "v") is reviews[2]
    assert settled_by(reviews, None) is None


def test_a_review_read_back_is_the_same_and_says_that_it_was_read_back() -> None:
    found = Finding("a.txt", None, "minor", "why", "check")
    review = a_review(CHANGES, findings=(found,), backend="b", model="m", since="s", worker_id="w")
    [back] = from_json([review.to_json()])
    assert back.recalled
    assert back.to_json() == {**review.to_json(), "recalled": True}


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        [{}],
        [1],
        ["x"],
        [{**a_review(APPROVED).to_json(), "verdict": "fine"}],
        [{**a_review(APPROVED).to_json(), "usage": None}],
        [{**a_review(APPROVED).to_json(), "findings": [{"file": "a"}]}],
        [a_review(APPROVED).to_json(), {"round": 2}],
    ],
)
def test_reviews_that_cannot_be_read_are_none(told: object) -> None:
    assert from_json(told) == ()
