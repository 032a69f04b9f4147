"""One line of an examination: what was looked at, how it stands, what to do about it. Pure data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from driver.terminal.safe_text import safe_line


class Level(StrEnum):
    """How a check stands; only `FAIL` keeps work from being done."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at; `remedy` is "" where there is nothing to do."""

    name: str
    level: Level
    detail: str
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """True unless this keeps work from being done."""
        return self.level is not Level.FAIL

    def __str__(self) -> str:
        remedy = f"  -> {self.remedy}" if self.remedy else ""
        return safe_line(f"{self.level:<4}  {self.name}  {self.detail}{remedy}")

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "ok": self.ok,
            "level": self.level.value,
            "detail": safe_line(self.detail),
            "remedy": safe_line(self.remedy),
        }


def passed(name: str, detail: str) -> CheckResult:
    """All is well."""
    return CheckResult(name, Level.OK, detail)


def warned(name: str, detail: str, remedy: str) -> CheckResult:
    """Work can be done; people should know."""
    return CheckResult(name, Level.WARN, detail, remedy)


def failed(name: str, detail: str, remedy: str) -> CheckResult:
    """No work can be done before this is mended."""
    return CheckResult(name, Level.FAIL, detail, remedy)


def failed_as(name: str, problem: object) -> CheckResult:
    """For a sentence of ours, which tells its remedy after a semicolon or else the last colon."""
    sentence = str(problem)
    detail, gap, remedy = sentence.partition("; ")
    if not gap:
        detail, _, remedy = sentence.rpartition(": ")
    return failed(name, detail, remedy) if detail else failed(name, sentence, "mend that first")


def named(prefix: str, checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The checks with `prefix` and a dot before their names."""
    return tuple(replace(check, name=f"{prefix}.{check.name}") for check in checks)


def masked(checks: Iterable[CheckResult], secrets: Iterable[str]) -> tuple[CheckResult, ...]:
    """The checks without these values, however they got there; short ones hide nothing."""
    hide = _hider([secret for secret in secrets if len(secret) >= 6])
    return tuple(
        replace(check, detail=hide(check.detail), remedy=hide(check.remedy)) for check in checks
    )


def _hider(secrets: list[str]) -> Callable[[str], str]:
    if not secrets:
        return str
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub("***", text)
