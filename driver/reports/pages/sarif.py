"""The refused work of a wave as SARIF 2.1.0, for code scanning and editors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from driver.domain.refusals import REFUSALS, words_of
from driver.reports.overview import FAULTS, Item, Overview
from driver.terminal.safe_text import safe_text, shortened

Json = Mapping[str, Any]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_OTHER = "not-shipped"
_MOST_PLACES, _MOST_FINDINGS, _MOST_WORDS, _MOST_OF_A_NAME = 5, 50, 2_000, 700
# Of the whole document: findings, and characters of all messages.
_MOST_OF_ALL, _MOST_CHARACTERS, _LEAST_WORDS = 1_000, 400_000, 200
_LEVELS = {"critical": "error", "major": "error", "minor": "warning"}


def sarif(view: Overview, version: str) -> dict[str, Any]:
    """The document: a result for each item that did not ship, and for each finding of its last
    review. Many items have shorter messages and fewer findings each."""
    open_items = [item for item in view.items if item.reason and not item.is_good]
    most = min(_MOST_FINDINGS, max(1, _MOST_OF_ALL // max(1, len(open_items))))
    results = [result for item in open_items for result in _results(item, most)]
    room = max(_LEAST_WORDS, min(_MOST_WORDS, _MOST_CHARACTERS // max(1, len(results))))
    for result in results:
        result["message"]["text"] = safe_text(shortened(result["message"]["text"], room))
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


def _results(item: Item, most: int) -> Iterator[dict[str, Any]]:
    """Yields the refusal, at the files of the work, and then the findings at their lines."""
    words = words_of(item.reason)
    remedy = f" What to do: {item.remedy}." if item.remedy else ""
    files = [str(name) for name in item.record.get("filesWritten") or ()]
    files = list(islice(filter(_is_short, files), _MOST_PLACES))
    level = "error" if item.outcome in FAULTS else "warning"
    text = f"{item.slug}: {item.outcome}: {item.reason}.{remedy}"
    yield _result(_id(words) if words else _OTHER, level, text, [_place(name) for name in files])
    reviews = item.record.get("reviews") or [{}]
    for finding in (reviews[-1].get("findings") or ())[:most]:
        text = f"{item.slug}: {finding.get('why') or ''}"
        name = str(finding.get("file") or "")
        places = [_place(name, finding.get("line"))] if name and _is_short(name) else []
        yield _result("review", _LEVELS.get(str(finding.get("severity")), "note"), text, places)


def _result(rule: str, level: str, text: str, places: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": places}


def _is_short(name: str) -> bool:
    """False for a name that would fill the document, as an agent may give a file."""
    return len(_address(name)) <= _MOST_OF_A_NAME


def _address(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"))


def _place(name: str, line: object = None) -> dict[str, Any]:
    """A file of the repository. Its name is an address, so that every sign of it is kept."""
    region = {"region": {"startLine": line}} if isinstance(line, int) and line > 0 else {}
    return {"physicalLocation": {"artifactLocation": {"uri": _address(name)}, **region}}
