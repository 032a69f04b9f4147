"""A recorded dispatch, as data and as a JSON object, which is a line of a recording. Pure.

Reading is strict and reports all faults of an object at once. `recording` owns the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_NONE, Usage, WorkerResult
from driver.backend_api.usage import amount, usage_from
from driver.domain.results import MODE_FILE, MODE_LINK, MODE_PROGRAM
from state_store.documents.errors import InputError
from state_store.values.lazy_dataclass import dataclass, field

MODES = (MODE_FILE, MODE_PROGRAM, MODE_LINK)

Key = tuple[str, str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A changed path, relative to the repository. `mode` None is a deletion. The data of a link is
    its target. Nested repositories are not supported."""

    path: str
    mode: str | None
    data: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """The JSON object, with the content as text if possible."""
        record: dict[str, Any] = {"path": self.path, "mode": self.mode}
        if self.mode is None:
            return record
        try:
            return record | {"text": self.data.decode("utf-8")}
        except UnicodeDecodeError:
            return record | {"base64": base64.b64encode(self.data).decode("ascii")}

    @classmethod
    def from_json(cls, record: object) -> RecordedFile:
        """The file in a JSON object. Raises InputError if it is invalid."""
        if not isinstance(record, dict):
            raise InputError("must be an object")
        path, mode = record.get("path"), record.get("mode")
        if not isinstance(path, str):
            raise InputError("path must be a text")
        if problem := path_problem(path):
            raise InputError(f"path {path!r} {problem}")
        if mode is None:
            return cls(path, None)
        if mode not in MODES:
            raise InputError(f"mode must be one of {', '.join(MODES)}, or null for a deletion")
        text, encoded = record.get("text"), record.get("base64")
        if isinstance(text, str) and encoded is None:
            return cls(path, mode, text.encode("utf-8", "surrogatepass"))
        if not isinstance(encoded, str) or text is not None:
            raise InputError('needs its content, either as "text" or as "base64"')
        try:
            return cls(path, mode, base64.b64decode(encoded, validate=True))
        except binascii.Error as error:
            raise InputError(f"base64 cannot be decoded: {error}") from error


@dataclass(frozen=True, slots=True)
class Recorded:
    """A dispatch with its result. `number` counts from 1 within the phase."""

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
        """The record of a backend's result, without its changed files."""
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
        """The key by which a replay finds it."""
        return (self.item, self.phase, self.number)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the dispatch."""
        return {
            "item": self.item,
            "phase": self.phase,
            "number": self.number,
            "promptSha256": prompt_sha256(self.prompt),
            "prompt": self.prompt,
            "ok": self.ok,
            "error": self.error,
            "failure": self.failure,
            "text": self.text,
            "structured": self.structured,
            "model": self.model,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cost_usd": self.usage.cost_usd,
            },
            "durationS": self.duration_s,
            "files": [file.to_json() for file in self.files],
        }

    @classmethod
    def from_json(cls, record: object) -> Recorded:
        """The dispatch in a JSON object. Raises InputError with every problem found."""
        if not isinstance(record, dict):
            raise InputError("a dispatch must be a JSON object")
        read = _Reader(record)
        prompt, ok = read.text("prompt"), read.of_type("ok", bool, False)
        if record.get("promptSha256", prompt_sha256(prompt)) != prompt_sha256(prompt):
            read.problems.append("promptSha256 is not the digest of prompt")
        use = read.of_type("usage", dict) or {}
        files = read.of_type("files", list) or []
        entry = cls(
            item=read.name("item"),
            phase=read.name("phase"),
            number=read.number(),
            prompt=prompt,
            ok=ok,
            error=read.of_type("error", str),
            text=read.of_type("text", str) or "",
            model=read.of_type("model", str),
            usage=read.noted("usage: ", lambda: usage_from(use), Usage()),
            duration_s=read.noted("", lambda: amount(record, "durationS"), None) or 0.0,
            files=tuple(
                read.noted(
                    f"files, entry {number}: ",
                    partial(RecordedFile.from_json, file),
                    RecordedFile("", None),
                )
                for number, file in enumerate(files, start=1)
            ),
            failure=read.of_type("failure", str) or (FAILURE_NONE if ok else FAILURE_AGENT),
            structured=read.of_type("structured", dict),
        )
        if read.problems:
            raise InputError(read.problems)
        return entry


NONCE_MARK = "(the nonce of the call)"


def without_nonce(text: str, nonce: str) -> str:
    """The text for the recording, without the nonce, which is new in every run."""
    return text.replace(nonce, NONCE_MARK) if nonce else text


def prompt_sha256(prompt: str) -> str:
    """The digest by which a replay recognises a prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def path_problem(path: str) -> str:
    """The reason why a path cannot be a file of a repository, or ""."""
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
    """Reads the fields of a decoded object and collects their faults."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.problems: list[str] = []

    def of_type(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.record.get(key, default)
        if value is default or isinstance(value, kind):
            return value
        self.problems.append(f"{key} must be {_KINDS[kind]}")
        return default

    def text(self, key: str) -> str:
        if key not in self.record:
            self.problems.append(f"{key} is missing")
        return str(self.of_type(key, str, ""))

    def name(self, key: str) -> str:
        if self.record.get(key) == "":
            self.problems.append(f"{key} must not be empty")
        return self.text(key)

    def number(self) -> int:
        value = self.record.get("number")
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self.problems.append("number must be a whole number of at least 1")
        return 1

    def noted(self, where: str, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except (ValueError, InputError) as error:
            self.problems.append(f"{where}{error}")
            return default


_KINDS = {bool: "true or false", dict: "an object", list: "a list", str: "a text"}
