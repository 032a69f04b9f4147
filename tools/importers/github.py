"""GitHub issues as drafts, out of what `gh issue list --json` prints. Pure.

Asks for number, title, body, labels, state, createdAt and url. What a form or a person put into the
body under a heading such as `### Test command`, or in a block fenced as `tidegate`, are fields.
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
# A body says what is to be done; who may do it, when, and where is for the tracker's owner to say.
_FROM_BODY = frozenset({"ownsFiles", "testCmd", "priority", "dependsOn", "workDir", "lane"})


def convert(document: Any) -> Drafts:
    """The drafts of a list of issues; every issue is either a draft or named in `lost`."""
    if not isinstance(document, list):
        told = f"is no list of issues; make it with gh issue list --json {JSON_FIELDS}"
        return Drafts((), (NotConverted("the file", told),))
    lost: list[NotConverted] = []
    found = []
    for position, issue in enumerate(document, start=1):
        what = _called(issue, position)
        if why := _unfit(issue):
            lost.append(NotConverted(what, why))
        else:
            found.append(_draft(issue, what, lost))
    return Drafts(unique_sources(found, lost), tuple(lost))


def _called(issue: Any, position: int) -> str:
    number = issue.get("number") if isinstance(issue, dict) else None
    return f"#{number}" if isinstance(number, int) else f"entry {position}"


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
    labels = _labels(issue.get("labels"))
    body = visible(_body(issue).replace("\r\n", "\n"))
    told, prompt = _read_body(body, what, lost)
    title = visible(issue["title"])
    raw = {
        "title": title,
        "prompt": f"{title}\n\n{prompt}".strip(),
        "labels": labels,
        "priority": priority_of(labels),
        "createdAt": issue.get("createdAt"),
        **told,
    }
    place = _ISSUE.match(str(issue.get("url") or ""))
    source = f"{place[1]}/{place[2]}#{place[3]}" if place else f"github#{issue['number']}"
    return Draft(source, cleaned(what, raw, lost), f"GH-{issue['number']}")


def _body(issue: Mapping[str, Any]) -> str:
    body = issue.get("body")
    return body if isinstance(body, str) else ""


def _labels(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else []
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in entries)
    return [name for name in names if isinstance(name, str) and name]


def _read_body(body: str, what: str, lost: list[NotConverted]) -> tuple[dict[str, Any], str]:
    """The fields that a body has, and the rest of it, which is the prompt."""
    fields: dict[str, Any] = {}
    for block in _FENCED.findall(body):
        try:
            told = parse(block.splitlines())
        except FrontMatterError as error:
            lost.append(NotConverted(what, f"its tidegate block, {error}", partly=True))
            continue
        for key, value in told.items():
            _take(key, value, fields, what, lost)
    parts = _SECTION.split(_FENCED.sub("", body))
    kept = [parts[0]]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if field_of(heading) in _FROM_BODY:
            answer = _CODE.sub(r"\1", text.strip()).strip()
            fields.setdefault(str(field_of(heading)), None if answer == _NO_ANSWER else answer)
        elif text.strip() != _NO_ANSWER:
            kept.append(f"### {heading}{text}")
    return fields, "\n".join(part.strip("\n") for part in kept).strip()


def _take(
    key: str, value: Any, fields: dict[str, Any], what: str, lost: list[NotConverted]
) -> None:
    name = field_of(key)
    if name in _FROM_BODY:
        fields[str(name)] = value
    else:
        told = f"{key} in its tidegate block is not taken from an issue"
        lost.append(NotConverted(what, told, partly=True))
