"""One recorded dispatch, as data and as the JSON object that a line of a recording holds. Pure.

Reading is strict and tells everything that is wrong with an object at once. The file around the
lines is `recording`'s.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_NONE, Usage, WorkerResult
from driver.backend_api.usage import amount, usage_from
from driver.domain.results import MODE_FILE, MODE_LINK, MODE_PROGRAM
from state_store.documents.errors import InputError

MODES = (MODE_FILE, MODE_PROGRAM, MODE_LINK)

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """One changed path, repo-relative with `/`. `mode` None is a deletion; a link's data is its
    target. A nested repository cannot be recorded.
    """

    path: str
    mode: str | None
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One dispatch and what came of it; `number` counts from 1 within the phase."""

    item: str
    phase: str
    number: int
    prompt: str
    ok: bool
    error: str | None = None
    text: str = ""
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    duration_s: float = 0.0
    files: tuple[RecordedFile, ...] = ()
    failure: str = FAILURE_NONE
    structured: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        result: WorkerResult,
        duration_s: float,
        *,
        item: str,
        phase: str,
        number: int,
        prompt: str,
    ) -> Recorded:
        """What a backend said, without what it changed."""
        return cls(
            item=item,
            phase=phase,
            number=number,
            prompt=prompt,
            ok=result.ok,
            error=result.error,
            text=result.text,
            model=result.model,
            usage=result.usage,
            duration_s=duration_s,
            failure=result.failure,
        )

    @property
    def key(self) -> Key:
        """What a replay looks it up by."""
        return (self.item, self.phase, self.number)


NONCE_MARK = "(the nonce of the call)"


def without_nonce(text: str, nonce: str) -> str:
    """A text as it is recorded: what is new in every run is left out of it."""
    return text.replace(nonce, NONCE_MARK) if nonce else text


def prompt_sha256(prompt: str) -> str:
    """The digest by which a replay recognises a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def to_json(entry: Recorded) -> dict[str, Any]:
    """The JSON object of one dispatch."""
    return {
        "item": entry.item,
        "phase": entry.phase,
        "number": entry.number,
        "promptSha256": prompt_sha256(entry.prompt),
        "prompt": entry.prompt,
        "ok": entry.ok,
        "error": entry.error,
        "failure": entry.failure,
        "text": entry.text,
        "structured": entry.structured,
        "model": entry.model,
        "usage": {
            "input_tokens": entry.usage.input_tokens,
            "output_tokens": entry.usage.output_tokens,
            "cost_usd": entry.usage.cost_usd,
        },
        "durationS": entry.duration_s,
        "files": [_file_to_json(file) for file in entry.files],
    }


def from_json(record: object) -> Recorded:
    """One dispatch from its JSON object. Raises InputError with every problem found."""
    if not isinstance(record, dict):
        raise InputError("a dispatch must be a JSON object")
    read = _Reader(record)
    prompt = read.text("prompt")
    if record.get("promptSha256", prompt_sha256(prompt)) != prompt_sha256(prompt):
        read.problems.append("promptSha256 is not the digest of prompt")
    ok = read.of_type("ok", bool, False)
    entry = Recorded(
        item=read.name("item"),
        phase=read.name("phase"),
        number=read.number(),
        prompt=prompt,
        ok=ok,
        error=read.optional_text("error"),
        text=read.optional_text("text") or "",
        model=read.optional_text("model"),
        usage=read.usage(),
        duration_s=read.duration_s(),
        files=read.files(),
        failure=read.optional_text("failure") or (FAILURE_NONE if ok else FAILURE_AGENT),
        structured=read.of_type("structured", dict, None),
    )
    if read.problems:
        raise InputError(read.problems)
    return entry


def path_problem(path: str) -> str:
    """Why a path cannot be a file of a repository, "" when it can."""
    parts = path.split("/")
    if not path or path.startswith("/") or PureWindowsPath(path).drive:
        return "must be relative to the repository"
    if "\\" in path or "\0" in path:
        return "must be written with / and without NUL"
    if any(part in ("", ".", "..") for part in parts) or PurePosixPath(path).as_posix() != path:
        return "must name a file below the repository, without . or .. in it"
    if any(part.casefold() == ".git" for part in parts):
        return "must not reach into .git"
    return ""


class _Reader:
    """Takes fields out of one decoded object and notes what is wrong with them."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.problems: list[str] = []

    def of_type(self, key: str, kind: type, default: Any) -> Any:
        value = self.record.get(key, default)
        if value is default or isinstance(value, kind):
            return value
        self.problems.append(f"{key} must be {_KINDS[kind]}")
        return default

    def text(self, key: str) -> str:
        if key not in self.record:
            self.problems.append(f"{key} is missing")
        value: str = self.of_type(key, str, "")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if self.record.get(key) == "":
            self.problems.append(f"{key} must not be empty")
        return value

    def optional_text(self, key: str) -> str | None:
        value: str | None = self.of_type(key, str, None)
        return value

    def number(self) -> int:
        value = self.record.get("number")
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self.problems.append("number must be a whole number of at least 1")
        return 1

    def usage(self) -> Usage:
        record = self.of_type("usage", dict, None) or {}
        try:
            return usage_from(record)
        except ValueError as error:
            self.problems.append(f"usage: {error}")
            return Usage()

    def duration_s(self) -> float:
        try:
            return amount(self.record, "durationS") or 0.0
        except ValueError as error:
            self.problems.append(str(error))
            return 0.0

    def files(self) -> tuple[RecordedFile, ...]:
        entries = self.of_type("files", list, None) or []
        return tuple(self._file(number, entry) for number, entry in enumerate(entries, start=1))

    def _file(self, number: int, entry: object) -> RecordedFile:
        try:
            return _file_from_json(entry)
        except InputError as error:
            self.problems.append(f"files, entry {number}: {error}")
            return RecordedFile("", None)


_KINDS = {bool: "true or false", dict: "an object", list: "a list", str: "a text"}


def _file_to_json(file: RecordedFile) -> dict[str, Any]:
    record: dict[str, Any] = {"path": file.path, "mode": file.mode}
    if file.mode is None:
        return record
    try:
        return record | {"text": file.data.decode("utf-8")}
    except UnicodeDecodeError:
        return record | {"base64": base64.b64encode(file.data).decode("ascii")}


def _file_from_json(record: object) -> RecordedFile:
    if not isinstance(record, dict):
        raise InputError("must be an object")
    path, mode = record.get("path"), record.get("mode")
    if not isinstance(path, str):
        raise InputError("path must be a text")
    if problem := path_problem(path):
        raise InputError(f"path {path!r} {problem}")
    if mode is None:
        return RecordedFile(path, None)
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, or null for a deletion")
    return RecordedFile(path, mode, _data(record))


def _data(record: Mapping[str, Any]) -> bytes:
    text, encoded = record.get("text"), record.get("base64")
    if isinstance(text, str) and encoded is None:
        return text.encode("utf-8", "surrogatepass")
    if isinstance(encoded, str) and text is None:
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise InputError(f"base64 cannot be decoded: {error}") from error
    raise InputError('needs its content, either as "text" or as "base64"')
