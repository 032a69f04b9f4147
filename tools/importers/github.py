"""Converts the GitHub issues that `gh issue list --json` prints to drafts. Pure.

Needs number, title, body, labels, state, createdAt and url. Text in the body below a heading such
as `### Test command`, or in a block fenced as `tidegate`, becomes fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tools.importers.drafts import (
    Draft,
    Drafts,
    NotConverted,
    cleaned,
    field_of,
    priority_of,
    unique_sources,
    visible,
)
from tools.importers.front_matter import FrontMatterError, parse

JSON_FIELDS = "number,title,body,labels,state,createdAt,url"
MAX_BODY = 100_000

_ISSUE = re.compile(r"https://([^/\s]+)/([^/\s]+/[^/\s]+)/issues/(\d+)")
_SECTION = re.compile(r"^#{2,4}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_FENCED = re.compile(r"^```tidegate[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\A```\w*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_NO_ANSWER = "_No response_"
# The author of an issue describes the work. The owner decides repository, id and status.
_FROM_BODY = frozenset({"ownsFiles", "testCmd", "priority", "dependsOn", "workDir", "lane"})


def convert(document: Any) -> Drafts:
    """Returns the drafts of a list of issues. `lost` names failed issues."""
    if not isinstance(document, list):
        why = f"is no list of issues; make it with gh issue list --json {JSON_FIELDS}"
        return Drafts((), (NotConverted("the file", why),))
    lost: list[NotConverted] = []
    found = []
    for position, issue in enumerate(document, start=1):
        number = issue.get("number") if isinstance(issue, dict) else None
        what = f"#{number}" if isinstance(number, int) else f"entry {position}"
        if why := _unfit(issue):
            lost.append(NotConverted(what, why))
        else:
            found.append(_draft(issue, what, lost))
    return Drafts(unique_sources(found, lost), tuple(lost))


def _unfit(issue: Any) -> str:
    if not isinstance(issue, dict):
        return "is no object"
    if not isinstance(issue.get("number"), int) or isinstance(issue["number"], bool):
        return "has no number; ask gh for it"
    if not isinstance(issue.get("title"), str) or not visible(issue["title"]):
        return "has no title; ask gh for it"
    if str(issue.get("state") or "OPEN").upper() != "OPEN":
        return f"is {str(issue['state']).lower()}"
    if "/pull/" in str(issue.get("url") or ""):
        return "is a pull request"
    return "has a body of more than 100,000 characters" if len(_body(issue)) > MAX_BODY else ""


def _draft(issue: Mapping[str, Any], what: str, lost: list[NotConverted]) -> Draft:
    entries = issue.get("labels")
    entries = entries if isinstance(entries, list) else []
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in entries)
    labels = [name for name in names if isinstance(name, str) and name]
    body = visible(_body(issue).replace("\r\n", "\n"))
    fields, prompt = _read_body(body, what, lost)
    title = visible(issue["title"])
    raw = {
        "title": title,
        "prompt": f"{title}\n\n{prompt}".strip(),
        "labels": labels,
        "priority": priority_of(labels),
        "createdAt": issue.get("createdAt"),
        **fields,
    }
    place = _ISSUE.match(str(issue.get("url") or ""))
    source = f"{place[1]}/{place[2]}#{place[3]}" if place else f"github#{issue['number']}"
    return Draft(source, cleaned(what, raw, lost), f"GH-{issue['number']}")


def _body(issue: Mapping[str, Any]) -> str:
    body = issue.get("body")
    return body if isinstance(body, str) else ""


def _read_body(body: str, what: str, lost: list[NotConverted]) -> tuple[dict[str, Any], str]:
    """Returns the fields in a body, and the rest as the prompt."""
    fields: dict[str, Any] = {}
    for block in _FENCED.findall(body):
        try:
            table = parse(block.splitlines())
        except FrontMatterError as error:
            lost.append(NotConverted(what, f"its tidegate block, {error}", partly=True))
            continue
        for key, value in table.items():
            if (name := field_of(key)) in _FROM_BODY:
                fields[str(name)] = value
            else:
                why = f"{key} in its tidegate block is not taken from an issue"
                lost.append(NotConverted(what, why, partly=True))
    parts = _SECTION.split(_FENCED.sub("", body))
    kept = [parts[0]]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if field_of(heading) in _FROM_BODY:
            answer = _CODE.sub(r"\1", text.strip()).strip()
            fields.setdefault(str(field_of(heading)), None if answer == _NO_ANSWER else answer)
        elif text.strip() != _NO_ANSWER:
            kept.append(f"### {heading}{text}")
    return fields, "\n".join(part.strip("\n") for part in kept).strip()
