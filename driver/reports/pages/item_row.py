"""An item in the page of a wave: its row, and all that it unfolds to. Reads output files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from driver.filesystem.kept_output import both_files
from driver.filesystem.safe_file_access import read_plain_end
from driver.reports import words
from driver.reports.diffs import Diff
from driver.reports.item_times import receipts
from driver.reports.overview import FAULTS, Item
from driver.terminal.safe_text import counted, html_text
from state_store.documents.journal import stored_slug

Json = Mapping[str, Any]
COLUMNS = ("item", "result", "tests", "change", "repairs", "time", "tokens", "cost")
_TITLE_BYTES, _FACT_BYTES = 400, 600
_FEWEST_BYTES, _MOST_BYTES = 2_000, 120_000
_CODE = re.compile("`([^`]*)`")
_MOST_FINDINGS, _MOST_RECEIPTS = 20, 30


class Source(NamedTuple):
    """The place of an item's outputs, its change, and the bytes that it may have on the page."""

    folder: Path | None
    diff: Diff | None
    room: int


def room_for_each(items: int, most: int) -> int:
    """The bytes of texts for each item, so that a page with all of them has at most `most`."""
    return max(_FEWEST_BYTES, min(_MOST_BYTES, most // max(items, 1)))


def anchor(item: Item) -> str:
    """The name of the item's place on the page: inside of its row, which a link to it unfolds."""
    try:
        return f"item-{stored_slug(item.slug)}"
    except ValueError:
        return "item"


def row(item: Item, source: Source, read_first: list[str]) -> str:
    """The item as a row that unfolds."""
    return (
        f'<details><summary class="row">{_cells(item)}</summary><div class="body"'
        f' id="{anchor(item)}">{"".join(_body(item, source, read_first))}</div></details>'
    )


def pill(item: Item) -> str:
    """The result of an item, in a color and in words."""
    kind = "good" if item.is_good else "bad" if item.outcome in FAULTS else "open"
    return f'<span class="pill {kind}">{html_text(item.outcome)}</span>'


def remedy(item: Item) -> str:
    """The remedy of an item's reason. Its words are ours, with code in them."""
    text = _CODE.sub(r"<code>\1</code>", html_text(item.remedy))
    return f'<p class="dim"><b>What to do:</b> {text}</p>' if text else ""


def _cells(item: Item) -> str:
    title = f"<small>{clipped(item.title, _TITLE_BYTES)}</small>" if item.title else ""
    size = item.diff
    change = f"+{size.added} -{size.removed}" if size else words.NONE
    numbers = {
        "tests": words.before_after(item.tests).replace("->", "\u2192"),
        "change": change,
        "repairs": str(item.repairs or words.NONE),
        "time": words.duration(item.duration_s),
        "tokens": item.use[0],
        "cost": item.use[1],
    }
    shown = (
        f'<span class="{"t" if name == "tests" else "n"}"><span class="vh">{name} </span>'
        f"{html_text(value)}</span>"
        for name, value in numbers.items()
    )
    return (
        f'<span><span class="name">{html_text(item.slug)}</span>{title}</span>'
        f"<span>{pill(item)}</span>{''.join(shown)}"
    )


def _body(item: Item, source: Source, read_first: list[str]) -> Iterator[str]:
    """Yields the parts in the order in which a person asks for them."""
    if item.reason:
        reason = clipped(item.reason, source.room // 5)
        yield f'<div class="why"><p>{reason}</p>{remedy(item)}</div>'
    if read_first:
        listed = "".join(f"<li>{html_text(why)}</li>" for why in read_first)
        yield f'<h3>Read this</h3><ul class="plain">{listed}</ul>'
    yield _facts(item)
    yield from _reviews(item.record, source.room // 5)
    if source.diff:
        yield _change(source.diff, source.room * 3 // 5)
    yield from _runs(item.record)
    yield from _outputs(item, source)


def clipped(text: str, room: int) -> str:
    """`text` as HTML of about `room` bytes; a cut text ends with three dots."""
    whole = html_text(text[:room])
    size = len(whole.encode())
    if size <= room and len(text) <= room:
        return whole
    return html_text(text[: min(room, room * room // max(size, 1))]) + "..."


def _facts(item: Item) -> str:
    record = item.record
    grade = record.get("grade")
    facts = {
        "Agent": " ".join(filter(None, (item.backend, record.get("model")))),
        "Evidence": f"grade {grade}" if grade else "",
        "Commit": record.get("commit"),
        "Its work": record.get("savedWork"),
        "Review": str(record.get("adversarial_review") or "").replace("_", " "),
        "Warning": record.get("ship_warning"),
    }
    rows = "".join(
        f"<tr><th scope='row'>{name}</th><td><code>{clipped(str(value), _FACT_BYTES)}</code></td>"
        "</tr>"
        for name, value in facts.items()
        if value
    )
    return f'<div class="wide"><table>{rows}</table></div>' if rows else ""


def _reviews(record: Json, room: int) -> Iterator[str]:
    """Yields the reviews with their findings, of about `room` bytes."""
    for review in record.get("reviews") or ():
        verdict = clipped(str(review.get("verdict")).replace("_", " "), 30)
        if room <= 0:
            yield '<p class="dim">More reviews are in the details of the report.</p>'
            return
        summary = clipped(str(review.get("summary") or review.get("reason") or ""), room // 2)
        room -= len(summary)
        listed = ""
        for one in (review.get("findings") or ())[:_MOST_FINDINGS]:
            listed += f"<li>{_finding(one, room // 2)}</li>" if len(listed) < room else ""
        room -= len(listed)
        findings = f'<ul class="plain">{listed}</ul>' if listed else ""
        yield f"<h3>Review {review.get('round') or ''}: {verdict}</h3><p>{summary}</p>{findings}"


def _finding(finding: Json, room: int) -> str:
    """A finding of a reviewer: its weight, its place and its words."""
    place = ":".join(str(finding[key]) for key in ("file", "line") if finding.get(key))
    severity = clipped(str(finding.get("severity") or ""), 30)
    where = f" <code>{clipped(place, _FACT_BYTES)}</code>" if place else ""
    return f"<b>{severity}</b>{where} {clipped(str(finding.get('why') or ''), room)}"


def _change(diff: Diff, room: int) -> str:
    """The change, folded; added and removed lines in colors of their own."""
    size = diff.size
    named = f"Change: {counted(size.files, 'file')}, +{size.added} -{size.removed}"
    if not diff.text:
        return f'<p class="dim">{named}; not shown: {html_text(diff.why_not or "empty")}</p>'
    text = fitted(diff.text, room)
    cut = "" if text == diff.text else "<b>... the rest is not shown here</b>"
    return f"<details><summary>{named}</summary><pre>{_marked(text)}{cut}</pre></details>"


def fitted(text: str, room: int) -> str:
    """The first lines of `text` that have about `room` bytes on the page, or all of it."""
    head = text[:room]
    size = len(html_text(head).encode())
    if size <= room and head == text:
        return text
    return head[: len(head) * room // max(size, 1)].rpartition("\n")[0]


_MARKS = {"+": "ins", "-": "del", "@": "b"}


def _marked(text: str) -> str:
    """A diff with its lines in groups of a kind; the heads of files are of no kind."""
    parts = []
    for kind, lines in groupby(text.split("\n"), _kind):
        joined = html_text("\n".join(lines))
        parts.append(f"<{kind}>{joined}</{kind}>" if kind else f"{joined}\n")
    return "".join(parts)


def _kind(line: str) -> str:
    """The element for a line of a diff; "" for a line that did not change."""
    if line.startswith(("+++ ", "--- ", "diff --git ", "index ")):
        return "b"
    return _MARKS.get(line[:1], "")


def _runs(record: Json) -> Iterator[str]:
    """Yields a table of the test runs behind the verdict, with the commands below it."""
    ran = [*receipts(record), *(record.get("together") or ())]
    if not ran:
        return
    rows = "".join(
        f"<tr><td>{html_text(str(one.get('purpose')).replace('_', ' '))}</td>"
        f"<td>{html_text(_result(one))}</td><td class='n'>{words.duration(one.get('durationS'))}"
        f"</td><td><code>{html_text(str(one.get('tree') or words.NONE)[:12])}</code></td></tr>"
        for one in ran[:_MOST_RECEIPTS]
    )
    commands = "\n".join(dict.fromkeys(str(one.get("command")) for one in ran))
    yield (
        f"<details><summary>Test runs: {len(ran)}</summary><div class='wide'><table><tr>"
        "<th scope='col'>purpose</th><th scope='col'>result</th><th scope='col' class='n'>time</th>"
        f"<th scope='col'>tree</th></tr>{rows}</table></div><pre>{clipped(commands, 2_000)}"
        "</pre></details>"
    )


def _result(receipt: Json) -> str:
    counts = receipt.get("counts") or {}
    numbers = {key: counts.get(key) for key in ("ran", "failed", "skipped")}
    return words.test_result({"kind": receipt.get("kind"), **numbers})


def _outputs(item: Item, source: Source) -> Iterator[str]:
    """Yields the end of the output of the last test run, and of the last red one before it."""
    if source.folder is None:
        return
    named = [one for one in receipts(item.record) if one.get("outputFile")]
    proofs = [one for one in named if one.get("purpose") == "proof"]
    red = [one for one in proofs if one.get("kind") != "green"][-1:]
    shown = {str(one["outputFile"]): one for one in (*proofs[-1:], *red)}
    room = source.room * 2 // 5 // max(len(shown), 1)
    for path, one in shown.items():
        out = source.folder / stored_slug(item.slug) / Path(path).name
        texts = [_end_of(file, room // 2) for file in both_files(out)]
        text = "\n".join(filter(None, texts))
        if text := text[-len(fitted(text, room)) or len(text) :]:
            heading = html_text(f"Output of {out.name}: {_result(one)}")
            yield f"<details><summary>{heading}</summary><pre>{html_text(text)}</pre></details>"


def _end_of(path: Path, room: int) -> str:
    """The last part of a file that a test wrote, after a line that counts the missing bytes."""
    end, before = read_plain_end(path.parent, path.name, room)
    text = end.decode("utf-8", "replace").strip("\n")
    return f"[... {before} bytes before]\n{text}" if before else text
