"""The reports as other programs read them: a browser, an HTML checker, parsers of JUnit and SARIF.

Each test is skipped where its program is not installed: `pip install html5lib junitparser
jsonschema playwright`, and Chromium on PATH.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.reports.compare import compare, compared
from driver.reports.diffs import Diff
from driver.reports.overview import DiffSize, overview
from driver.reports.pages.compare_page import compare_page
from driver.reports.pages.junit import junit
from driver.reports.pages.sarif import sarif
from driver.reports.pages.wave_page import page
from tests.support import reported
from tests.support.reported import evil_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# The part of the schema of SARIF 2.1.0 that code scanning asks for.
SARIF_SHAPE = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {"type": "object", "required": ["id"]},
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {
                                    "type": "object",
                                    "required": ["text"],
                                    "properties": {"text": {"type": "string"}},
                                },
                                "locations": {"type": "array"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def pages() -> Iterator[str]:
    """A page of each kind, and hostile ones."""
    for made in (reported.report(14), evil_report(), reported.report(0)):
        view = overview(made)
        text = "+<b>\n- &amp; </pre>\n"
        yield page(view, None, {item.slug: Diff(DiffSize(1, 1, 1), text) for item in view.items})
        yield compare_page(compare([compared(1.0, made), compared(2.0, made)]))


def test_a_checker_finds_the_pages_valid() -> None:
    html5lib = pytest.importorskip("html5lib", reason="needs html5lib")
    for text in pages():
        html5lib.HTMLParser(strict=True).parse(text)


def test_a_parser_of_junit_reads_all_cases() -> None:
    junitparser = pytest.importorskip("junitparser", reason="needs junitparser")
    for made in (reported.report(10), evil_report(10)):
        suites = junitparser.JUnitXml.fromstring(junit(overview(made)).encode())
        cases = [case for suite in suites for case in suite]
        assert len(cases) == suites.tests == 10
        assert sum(bool(case.result) for case in cases) == suites.failures + suites.errors == 3


def test_sarif_is_as_its_schema_says() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    for made in (reported.report(12), evil_report(12), reported.report(0)):
        jsonschema.validate(sarif(overview(made), "0.1.0"), SARIF_SHAPE)


@pytest.mark.more
def test_a_parser_of_sarif_reads_all_results() -> None:
    parser = pytest.importorskip("pydantic_sarif.model", reason="needs pydantic-sarif")
    made = sarif(overview(reported.report(12)), "0.1.0")
    read = parser.StaticAnalysisResultsFormatSarifVersion210JsonSchema(**made)
    assert len(read.runs[0].results) == len(made["runs"][0]["results"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium on PATH")
    with api.sync_playwright() as tools:
        opened = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def opened(browser: Any, path: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    """The page in a window of its own, and all that it asked for or complained of."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=True
    )
    shown, heard = context.new_page(), list[str]()
    shown.on("request", lambda request: heard.append(f"request {request.url}"))
    shown.on("console", lambda message: heard.append(f"console {message.text}"))
    shown.on("dialog", lambda dialog: heard.append("dialog"))
    shown.goto(path.as_uri(), wait_until="load")
    return shown, heard


@pytest.mark.more
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_asks_for_nothing_and_shows_all_of_it(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    for number, text in enumerate(pages()):
        path = tmp_path / f"{number}.html"
        path.write_text(text, encoding="utf-8")
        shown, heard = opened(browser, path, width, scheme)
        assert heard == [f"request {path.as_uri()}"]
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate("document.scripts.length") == 0
        ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(ground.strip("rgb()").split(",")[0]) < 128) == (scheme == "dark")
        shown.context.close()


@pytest.mark.more
def test_a_link_to_an_item_unfolds_it(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(overview(reported.report(5)), None, {}), encoding="utf-8")
    shown, _ = opened(browser, path, 1280, "light")
    assert shown.evaluate("document.querySelectorAll('details[open]').length") == 0
    shown.locator("ol.first a").first.click()
    assert shown.evaluate("document.querySelectorAll('details[open]').length") == 1
    shown.context.close()
