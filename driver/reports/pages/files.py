"""Writes the reports of a wave into its folder. An error changes no verdict and is printed.

The files can be made again from the stored details, so they are replaced at once and not flushed;
only `report.json` is. Nothing here reads or changes the state of a wave.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import driver
from driver.reports.diffs import Diff, diffs
from driver.reports.documents import split, with_sizes
from driver.reports.overview import overview
from driver.reports.pages.junit import junit
from driver.reports.pages.markdown_page import markdown
from driver.reports.pages.sarif import sarif
from driver.reports.pages.wave_page import page
from driver.reports.past import DOCUMENT
from driver.reports.summary_lines import PAGE
from state_store.documents.errors import TidegateError
from state_store.documents.files import replace_unflushed, write_json_atomic
from state_store.documents.indented_json import indented
from state_store.redaction.installed import redacted, redacted_value

Json = Mapping[str, Any]
Say = Callable[[str], None]
SCHEMA = "urn:tidegate:schema:report:1"  # the name of tools/schemas/report.json
MARKDOWN = "report.md"
JUNIT = "junit.xml"
SARIF = "report.sarif"
JOB_SUMMARY = "GITHUB_STEP_SUMMARY"
_MOST_SUMMARY_BYTES = 2**20


def write_reports(report: Json, folder: Path, environ: Mapping[str, str], say: Say) -> Json:
    """Writes all reports of a wave into its folder, and returns the short document; the whole
    report if its details could not be written."""
    report = redacted_value(report)
    changes: dict[str, Diff] = {}
    try:
        changes = diffs(report, environ)
    except (TidegateError, OSError) as error:
        say(f"the reports have no changes of items: {error}")
    sizes = {slug: change.size.to_json() for slug, change in changes.items()}
    short, details = split(report, folder, sizes)
    try:
        for path, record in details.items():
            replace_unflushed(path, _json(record))
    except (OSError, ValueError) as error:
        say(f"the details of the report are not in the run folder, so the report has them: {error}")
        short = dict(report)
    try:
        write_json_atomic(folder / DOCUMENT, {"$schema": SCHEMA, **short})
    except (TidegateError, OSError, ValueError) as error:
        say(f"the report is not in the run folder: {error}")
    view = overview(with_sizes(report, sizes))
    made: dict[str, Callable[[], str]] = {
        MARKDOWN: lambda: markdown(overview(short)),
        PAGE: lambda: page(view, folder, changes),
        JUNIT: lambda: junit(view),
        SARIF: lambda: f"{indented(sarif(view, driver.__version__), ensure_ascii=False)}\n",
    }
    for name, make in made.items():
        try:
            text = redacted(make()).encode("utf-8", "replace")
            replace_unflushed(folder / name, text)
        except Exception as error:  # noqa: BLE001 - a page is no reason to lose the report
            say(f"{name} was not written: {error!r}")
        else:
            if name == MARKDOWN and environ.get(JOB_SUMMARY) and (why := _summarize(environ, text)):
                say(f"the summary of the job was not written: {why}")
    return short


def _json(record: Json) -> bytes:
    try:
        return f"{indented(record, allow_nan=False, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half a surrogate pair, as in an undecodable file name
        return f"{indented(record, allow_nan=False)}\n".encode()


def _summarize(environ: Mapping[str, str], page: bytes) -> str:
    """Appends to the job's summary, and returns what hinders. GitHub shows none at all above its
    limit. A pipe without a reader would wait for one."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(environ[JOB_SUMMARY], flags, 0o666), "ab") as stream:
            seen = os.fstat(stream.fileno())
            if not stat.S_ISREG(seen.st_mode):
                return "it is no regular file"
            if seen.st_size + len(page) < _MOST_SUMMARY_BYTES:
                stream.write(page)
    except (OSError, ValueError) as error:
        return str(error)
    return ""
