"""The refused work of a wave as SARIF 2.1.0, for code scanning and editors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from driver.domain.refusals import REFUSALS, words_of
from driver.reports.overview import FAULTS, Item, Overview
from driver.terminal.safe_text import safe_text, shortened

Json = Mapping[str, Any]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_OTHER = "not-shipped"
_MOST_PLACES, _MOST_FINDINGS, _MOST_WORDS = 5, 50, 2_000
_LEVELS = {"critical": "error", "major": "error", "minor": "warning"}


def sarif(view: Overview, version: str) -> dict[str, Any]:
    """The document: a result for each item that did not ship, and for each finding of its last
    review."""
    open_items = [item for item in view.items if item.reason and not item.is_good]
    results = [result for item in open_items for result in _results(item)]
    used = {result["ruleId"] for result in results}
    driver = {
        "name": "Tidegate",
        "semanticVersion": version,
        "rules": [rule for rule in _rules() if rule["id"] in used],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"tidegate/{safe_text(view.wave_id)}"},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules() -> Iterator[dict[str, Any]]:
    """Yields a rule for each reason in our table, with its remedy."""
    yield _rule(_OTHER, "work that did not ship", "see the reason")
    yield _rule("review", "a finding of a reviewer", "change the work, or the request")
    for one in REFUSALS:
        yield _rule(_id(one.words), one.words, one.remedy)


def _rule(rule_id: str, words: str, remedy: str) -> dict[str, Any]:
    return {"id": rule_id, "shortDescription": {"text": words}, "help": {"text": remedy}}


def _id(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _results(item: Item) -> Iterator[dict[str, Any]]:
    """Yields the refusal, at the files of the work, and then the findings at their lines."""
    words = words_of(item.reason)
    remedy = f" What to do: {item.remedy}." if item.remedy else ""
    files = [str(name) for name in item.record.get("filesWritten") or ()][:_MOST_PLACES]
    level = "error" if item.outcome in FAULTS else "warning"
    text = f"{item.slug}: {item.outcome}: {item.reason}.{remedy}"
    yield _result(_id(words) if words else _OTHER, level, text, [_place(name) for name in files])
    reviews = item.record.get("reviews") or [{}]
    for finding in (reviews[-1].get("findings") or ())[:_MOST_FINDINGS]:
        text = f"{item.slug}: {finding.get('why') or ''}"
        places = [_place(str(finding["file"]), finding.get("line"))] if finding.get("file") else []
        yield _result("review", _LEVELS.get(str(finding.get("severity")), "note"), text, places)


def _result(rule: str, level: str, text: str, places: list[dict[str, Any]]) -> dict[str, Any]:
    message = {"text": safe_text(shortened(text, _MOST_WORDS))}
    return {"ruleId": rule, "level": level, "message": message, "locations": places}


def _place(name: str, line: object = None) -> dict[str, Any]:
    """A file of the repository. Its name is an address, so that every sign of it is kept."""
    uri = quote(name.encode("utf-8", "surrogatepass"))
    region = {"region": {"startLine": line}} if isinstance(line, int) and line > 0 else {}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}
