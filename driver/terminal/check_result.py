"""The result of a check: its name, its level, the finding, and the remedy.

The doctor prints all results; the pre-flight of a wave raises the error of the first failed one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from driver.terminal.safe_text import safe_line
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.values.lazy_dataclass import dataclass, field, replace


class Level(StrEnum):
    """The levels of a result. Only `FAIL` keeps a wave from starting."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `remedy` is "" if nothing is to do. The pre-flight raises
    `error`."""

    name: str
    level: Level
    detail: str
    remedy: str = ""
    error: TidegateError | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """False if this result keeps waves from starting."""
        return self.level is not Level.FAIL

    def __str__(self) -> str:
        remedy = f"  -> {self.remedy}" if self.remedy else ""
        return safe_line(f"{self.level:<4}  {self.name}  {self.detail}{remedy}")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "level": self.level.value,
            "detail": safe_line(self.detail),
            "remedy": safe_line(self.remedy),
        }


def passed(name: str, detail: str) -> CheckResult:
    return CheckResult(name, Level.OK, detail)


def warned(name: str, detail: str, remedy: str) -> CheckResult:
    """Returns a warning, which stops no wave."""
    return CheckResult(name, Level.WARN, detail, remedy)


def failed(name: str, detail: str, remedy: str) -> CheckResult:
    """Returns a failure, which stops every wave."""
    return CheckResult(name, Level.FAIL, detail, remedy)


def failed_as(name: str, problem: object) -> CheckResult:
    """Splits an error message into finding and remedy, at its semicolon or else its last colon."""
    sentence, error = str(problem), problem if isinstance(problem, TidegateError) else None
    detail, gap, remedy = sentence.partition("; ")
    if not gap:
        detail, _, remedy = sentence.rpartition(": ")
    if not detail:
        detail, remedy = sentence, "correct this first"
    return CheckResult(name, Level.FAIL, detail, remedy, error)


def tried(name: str, check: Callable[[], object], detail: str = "") -> CheckResult:
    """Runs a check. A TidegateError becomes a failed result. Otherwise the check passes with
    `detail`, or with the text it returned."""
    try:
        found = check()
    except TidegateError as error:
        return failed_as(name, error)
    return passed(name, detail or str(found))


def require(results: Iterable[CheckResult]) -> None:
    """Raises the error of the first failed result. Does not read an iterator beyond it."""
    for result in results:
        if not result.ok:
            raise result.error or CannotRunError(f"{result.detail}: {result.remedy}")


def named(prefix: str, checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """Returns the results with `prefix` and a dot before their names."""
    return tuple(replace(check, name=f"{prefix}.{check.name}") for check in checks)


def masked(checks: Iterable[CheckResult], secrets: Iterable[str]) -> tuple[CheckResult, ...]:
    """Returns the results with every secret of at least 6 characters masked."""
    longest_first = sorted((s for s in secrets if len(s) >= 6), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")  # (?!) matches nothing

    def hidden(text: str) -> str:
        return pattern.sub("***", text)

    return tuple(
        replace(check, detail=hidden(check.detail), remedy=hidden(check.remedy)) for check in checks
    )
