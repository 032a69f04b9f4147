"""The pages of a wave: nothing on them acts, all of them fit, and other programs read them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from driver.live.cells import width_of
from driver.reports.compare import compare, compared
from driver.reports.diffs import Diff
from driver.reports.documents import wave_of
from driver.reports.overview import DiffSize, Overview, overview
from driver.reports.pages.compare_page import compare_lines, compare_page
from driver.reports.pages.files import write_reports
from driver.reports.pages.junit import junit
from driver.reports.pages.markdown_page import markdown
from driver.reports.pages.sarif import sarif
from driver.reports.pages.wave_page import page
from driver.reports.past import past_wave, past_waves
from driver.reports.table import table_lines
from state_store.documents.errors import InputError
from tests.support import reported
from tests.support.reported import EVIL, evil_report

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "h1", "h2"),
    *("h3", "p", "a", "ul", "ol", "li", "div", "span", "dl", "dt", "dd", "b", "code", "pre", "ins"),
    *("del", "small", "details", "summary", "table", "tr", "th", "td", "svg", "rect", "g", "text"),
}
MANY = 200


def changes(view: Overview, text: str) -> dict[str, Diff]:
    return {item.slug: Diff(DiffSize(1, 2, 3), text) for item in view.items}


class Page(HTMLParser):
    """The tags of a page, and the addresses in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.links += [value or ""] if name in {"href", "src", "action", "data"} else []
            self.ids += [value or ""] if name == "id" else []
            self.handlers += [name] if name.startswith("on") else []


def is_inert(text: str) -> None:
    found = Page(text)
    assert found.tags - {"title"} <= TAGS
    assert all(link.startswith("#") for link in found.links)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert found.handlers == []
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert not re.search(r"url\(|@import", text)


def test_a_page_of_hostile_text_is_inert() -> None:
    view = overview(evil_report())
    is_inert(page(view, None, changes(view, f"+{EVIL}\n-{EVIL}\n")))


def test_a_comparison_of_hostile_text_is_inert() -> None:
    found = compare([compared(1.0, evil_report()), compared(2.0, evil_report())])
    is_inert(compare_page(found))
    assert all(line.isprintable() for line in compare_lines(found))


def test_hostile_output_of_a_test_is_text(tmp_path: Path) -> None:
    made = reported.report(3)
    folder = reported.with_outputs(made, tmp_path / "run")
    for out in folder.glob("*/test-1.out"):
        out.write_bytes(EVIL.encode("utf-8", "replace") + bytes(range(256)))
    text = page(overview(made), folder, {})
    assert "Output of test-1.out" in text
    is_inert(text)


def test_an_output_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    made = reported.report(1)
    folder = reported.with_outputs(made, tmp_path / "run")
    (out,) = folder.glob("*/test-1.out")
    (tmp_path / "secret").write_text("hidden words", encoding="utf-8")
    out.unlink()
    out.symlink_to(tmp_path / "secret")
    assert "hidden words" not in page(overview(made), folder, {})


def test_tests_before_and_after_have_a_real_arrow() -> None:
    text = page(overview(reported.report(1)), None, {})
    assert " red \u2192 " in text
    assert "-&gt;" not in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", ["'<&>\" ", "\x1b"])
def test_a_page_of_many_items_with_long_words_is_below_its_limit(text: str) -> None:
    made = reported.report(MANY)
    long = text * 10_000
    finding = {"severity": long, "file": long, "line": 5, "why": long}
    review = {"round": 1, "verdict": long, "summary": long, "findings": [finding] * 60}
    words = {"title": long, "error": long, "ship_warning": long, "reviews": [review] * 3}
    built = [{**one, **words} for one in wave_of(made)["built"]]
    whole = overview({**wave_of(made), "built": built, "error": long})
    found = page(whole, None, {})
    assert len(found.encode()) < 3_000_000
    is_inert(found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", ["x = 1\n", "'<&>\"\n", "\x1b" * 80 + "\n", "\u00e9\u4e2d\n"])
def test_a_page_of_many_items_is_below_its_limit(text: str, tmp_path: Path) -> None:
    made = reported.report(MANY)
    folder = reported.with_outputs(made, tmp_path / "run", lines=1)
    for out in folder.glob("*/test-1.out"):
        out.write_text(text * 4_000, encoding="utf-8")
    view = overview(made)
    assert len(page(view, folder, changes(view, f"+{text}" * 4_000)).encode()) < 3_000_000


def test_the_first_to_read_are_ordered_by_risk() -> None:
    made = reported.report(6)
    calm, large, own, *_ = [one for one in made["wave"]["built"] if one["verified"]]
    for one in made["wave"]["built"]:
        size = {"files": 1, "added": 1, "removed": 1}
        one.update(grade="A", repairs=0, selfWrittenTests=[], diff=size)
    large["diff"] = {"files": 2, "added": 900, "removed": 1}
    own.update(selfWrittenTests=["tests/test_a.py"], repairs=1)
    found = overview(made).to_read_first()
    assert [item.slug for item, _ in found] == [own["slug"], large["slug"]]
    assert found[0][1][:2] == [
        "the agent wrote tests itself: tests/test_a.py",
        "needed 1 repair round",
    ]
    assert calm["slug"] not in [item.slug for item, _ in found]


def test_a_lower_grade_says_what_the_evidence_lacks() -> None:
    made = reported.report(1)
    (one,) = made["wave"]["built"]
    one.update(grade="C", repairs=0, selfWrittenTests=[], diff=None)
    why = ["no canary test was red", "no count of tests is known"]
    made["wave"]["read_first"] = [{"slug": one["slug"], "grade": "C", "why": why}]
    [(_, told)] = overview(made).to_read_first()
    assert told[0] == f"evidence of grade C: {'; '.join(why)}"


def test_the_markdown_page_is_bounded_and_inert() -> None:
    text = markdown(overview(reported.report(5_000)))
    assert len(text.encode()) < 2**20
    assert "more item" in text
    text = markdown(overview(evil_report()))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not re.search(r"@everyone|://|^::|##\[", text, re.MULTILINE)


def test_junit_has_a_case_for_each_item() -> None:
    suites = ET.fromstring(junit(overview(reported.report(10))))
    (suite,) = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("10", "2", "1")
    failed = next(case for case in suite if case.find("failure") is not None)
    assert "What to do: " in (failed[0].text or "")
    assert ET.fromstring(junit(overview(evil_report())))


def test_sarif_names_the_reason_its_remedy_and_the_files() -> None:
    made = reported.report(12)
    run = sarif(overview(made), "0.1.0")["runs"][0]
    refused = next(one for one in run["results"] if one["ruleId"] == "changed-outside-its-files")
    place = refused["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (refused["level"], place["uri"]) == ("error", "src/a.py")
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert "ownsFiles" in rules["changed-outside-its-files"]["help"]["text"]
    assert {one["ruleId"] for one in run["results"]} == set(rules)
    finding = next(one for one in run["results"] if one["ruleId"] == "review")
    assert finding["locations"][0]["physicalLocation"]["region"] == {"startLine": 12}
    text = json.dumps(sarif(overview(evil_report()), "0.1.0"))
    assert text.isascii()


def test_sarif_of_many_hostile_items_stays_small() -> None:
    (hostile,) = evil_report()["wave"]["built"][:1]
    findings = [{"why": EVIL * 100, "severity": "major", "file": "\u6f22" * 77, "line": 1}] * 50
    long = {"verified": False, "error": EVIL * 100, "filesWritten": ["\u6f22" * 77] * 9}
    items = [
        {**hostile, **long, "slug": f"s{number}", "reviews": [{"findings": findings}]}
        for number in range(200)
    ]
    made = sarif(overview({"wave": {"wave_id": "w", "built": items, "shipped": []}}), "0.1.0")
    assert {one["message"]["text"].partition(":")[0] for one in made["runs"][0]["results"]} == {
        one["slug"] for one in items
    }
    assert len(json.dumps(made, ensure_ascii=False).encode()) < 3_000_000


def test_an_unknown_cost_is_told_and_is_not_zero() -> None:
    made = reported.report(4)
    for one in made["wave"]["built"]:
        one["usage"] = {"totalTokens": None, "costUsd": None}
    (unknown,) = compare([compared(1.0, made)]).waves
    assert unknown.sums.cost_per_shipped is None
    assert unknown.sums.to_json()["costUsd"] is None
    table = "\n".join(compare_lines(compare([compared(1.0, made)])))
    assert "unknown" in table
    assert "$0" not in table
    made["wave"]["built"][0]["usage"] = {"totalTokens": 10, "costUsd": 6.0}
    found = compare([compared(1.0, made)])
    assert found.total.unpriced == 3
    assert "at least $6.00" in "\n".join(compare_lines(found))


def test_waves_are_compared_by_backend_model_and_reason() -> None:
    found = compare(
        [compared(2.0, reported.report(10, seed=1)), compared(1.0, reported.report(5, seed=2))]
    )
    assert (found.total.items, sum(one.sums.items for one in found.waves)) == (15, 15)
    assert list(found.by_backend) == ["claude"]
    assert found.by_model["sonnet"].shipped == found.total.shipped
    assert sum(found.reasons.values()) == found.total.items - found.total.shipped
    assert "refused: changed outside its files" in found.reasons


def test_the_reason_of_a_test_that_fails_on_the_base_too_says_how_it_fails() -> None:
    made = reported.report(1)
    (item,) = made["wave"]["built"]
    made["wave"]["shipped"] = []
    item["verified"], item["verdict"] = False, "undecided"
    item["error"] = (
        "the test run changed tracked files: a.db; its test does so on the base as well: mend it"
    )
    (reason,) = compare([compared(1.0, made)]).reasons
    assert reason == (
        "undecided: the test run changed tracked files; its test does so on the base as well"
    )


def test_past_waves_are_found_by_the_begin_of_their_name(tmp_path: Path) -> None:
    for name in ("aa1", "aa2", "b"):
        made = reported.report(2)
        made["wave_id"] = made["wave"]["wave_id"] = name
        folder = reported.with_outputs(made, tmp_path / "runs" / name)
        write_reports(made, folder, {}, pytest.fail)
    assert past_wave(tmp_path, "b").wave_id == "b"
    assert sorted(one.wave_id for one in past_waves(tmp_path)) == ["aa1", "aa2", "b"]
    with pytest.raises(InputError, match="may be any of"):
        past_wave(tmp_path, "aa")
    with pytest.raises(InputError, match="available: "):
        past_wave(tmp_path, "c")
    with pytest.raises(InputError, match="no wave of"):
        past_wave(tmp_path / "nowhere", None)
    whole = past_wave(tmp_path, "aa1").whole()["wave"]["built"]
    assert [one["attempts"] for one in whole] == [
        one["attempts"] for one in reported.report(2)["wave"]["built"]
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 160])
def test_the_table_fits_the_terminal_and_keeps_name_and_result(width: int) -> None:
    made = reported.report(12)
    made["wave"]["built"][0]["slug"] = "\u4e2d\u6587-" * 20
    *rows, total = (line for line, _ in table_lines(overview(made), width))
    assert max(map(width_of, rows)) <= width
    assert rows[0].split()[:2] == ["item", "result"]
    assert all(re.search("shipped|failed|refused|undecided|verified", row) for row in rows[1:])
    assert total.startswith("wave: time ")
    assert ("cost" in rows[0].split()) == (width >= 40)


def test_an_item_that_no_agent_worked_on_has_no_use_and_its_wave_cost_nothing() -> None:
    never = {"slug": "a", "verdict": "halted", "dispatched": False, "usage": None}
    sums = {"total": 0, "costUsd": None, "unmetered": 0, "unpriced": 0}
    report = {"wave": {"wave_id": "w", "built": [never], "shipped": [], "tokens": sums}}
    _, (row, _), (total, _) = table_lines(overview(report))
    assert row.split() == ["a", "halted", *"-----"]
    assert total == "wave: time -, tokens 0, cost $0"
