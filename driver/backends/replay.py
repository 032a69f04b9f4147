"""The backend that answers from a recording: no agent, no network, always the same files.

Writes recorded changes into a workspace, never outside it and never through a link.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Unpack

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    AgentDriver,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
)
from driver.backends.backend_settings import Environ, given
from driver.backends.cli.endings import not_run
from driver.backends.cli.local_driver import LocalDriver, LocalOptions, item_of, phase_of
from driver.backends.recorded import (
    NONCE_MARK,
    Recorded,
    RecordedFile,
    prompt_sha256,
    without_nonce,
)
from driver.backends.recording import load_recording
from driver.domain.results import MODE_LINK, MODE_PROGRAM
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import link_plain, replace_plain
from state_store.documents.errors import InputError
from tools.settings.schema import BackendSettings

MATCHES = ("prompt", "item")


class ReplayDriver(LocalDriver):
    """Returns the recorded answer for an item, phase and attempt. With `match="prompt"` the prompt
    must be the recorded prompt."""

    name = "replay"
    encloses = True  # it starts no program

    def __init__(
        self,
        recording: Path,
        *,
        match: str = "prompt",
        tier: int = 4,
        **options: Unpack[LocalOptions],
    ) -> None:
        """Read the whole recording. Raises InputError for a bad recording or an unknown `match`."""
        super().__init__(**options)
        if match not in MATCHES:
            raise InputError(f"[backend] match must be one of {', '.join(MATCHES)}, not {match!r}")
        self._path = recording
        self._match = match
        self._tier = tier
        self._entries = load_recording(recording)

    def probe_capabilities(self) -> DriverCapabilities:
        """Only files; a replay proves nothing about an agent."""
        models = {entry.model for entry in self._entries.values() if entry.model}
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            structured_output=True,
            native_cost_tracking=True,
            recommended_verification_tier=self._tier,
            available_models=tuple(sorted(models)),
            notes="answers from a recording; reports the recorded usage",
            replays=True,
        )

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Write the recorded files into the workspace and return the recorded result."""
        try:
            entry = self._find(request)
            top = Path(request.environment.get("TIDEGATE_WORKSPACE") or request.workdir)
            apply_files(top, entry.files)
        except _Refusal as refusal:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, str(refusal))
        return WorkerResult(
            worker_id,
            ok=entry.ok,
            structured=_with_nonce(entry.structured, nonce_of(request)),
            text=entry.text,
            error=entry.error,
            usage=entry.usage,
            model=entry.model,
            failure=entry.failure,
        )

    def _find(self, request: WorkerRequest) -> Recorded:
        item, phase = item_of(request), phase_of(request)
        number = request.environment.get("TIDEGATE_ATTEMPT") or "1"
        entry = self._entries.get((item, phase, int(number) if number.isdecimal() else 0))
        if entry is None:
            raise _Refusal(f"{self._path} holds no answer for item {item!r}, {phase} {number}")
        asked = without_nonce(request.prompt, nonce_of(request))
        if self._match == "prompt" and prompt_sha256(entry.prompt) != prompt_sha256(asked):
            raise _Refusal(
                f"{self._path} was recorded with another prompt for item {item!r}, {phase} "
                f'{number}; record again, or set [backend] match to "item"'
            )
        return entry


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings. Raises InputError without a recording."""
    if not backend.recording:
        raise InputError("the replay backend needs [backend] recording, the file to answer from")
    path = Path(backend.recording)
    return ReplayDriver(path, match=backend.match, environ=environ, **given(tier=backend.tier))


def nonce_of(request: WorkerRequest) -> str:
    """The nonce that the answer to this request must repeat, or ""."""
    return request.environment.get("TIDEGATE_NONCE") or ""


def _with_nonce(structured: dict[str, Any] | None, nonce: str) -> dict[str, Any] | None:
    # Only an answer that had the right nonce when it was recorded gets the nonce of this call.
    if structured is None or not nonce or structured.get("nonce") != NONCE_MARK:
        return structured
    return {**structured, "nonce": nonce}


class _Refusal(Exception):
    """The recording cannot answer this request. The message becomes the dispatch's error."""


def apply_files(top: Path, files: tuple[RecordedFile, ...]) -> None:
    """Apply recorded changes to the tree at `top`: deletions first, then the rest, in order."""
    for file in sorted(files, key=lambda file: file.mode is not None):
        try:
            path = _checked_path(top, file.path)
            _remove(top, path)
            if file.mode is not None:
                if file.mode == MODE_LINK:
                    link_plain(top, file.path, os.fsdecode(file.data))
                else:
                    mode = 0o755 if file.mode == MODE_PROGRAM else 0o644
                    replace_plain(top, file.path, file.data, mode=mode)
        except (OSError, NotPlainError) as error:
            raise _Refusal(f"cannot replay {file.path!r}: {error}") from error


def _checked_path(top: Path, name: str) -> Path:
    """The path of a file below `top`. Raises _Refusal if a folder in it is a link. Checks each
    folder, because `resolve` follows links."""
    path = top.joinpath(*name.split("/"))
    # isjunction is new in Python 3.12. A junction is another kind of folder link on Windows.
    is_junction = getattr(os.path, "isjunction", lambda _: False)
    for folder in reversed(path.parents[: name.count("/")]):
        if folder.is_symlink() or is_junction(folder):
            raise _Refusal(f"cannot replay {name!r}: {folder.name!r} on its way is a link")
    return path


def _remove(top: Path, path: Path) -> None:
    """Delete a file or link, and then empty folders, as git does."""
    if not os.path.lexists(path) or stat.S_ISDIR(path.lstat().st_mode):
        return
    path.unlink()
    for folder in path.parents:
        if folder == top or any(folder.iterdir()):
            return
        folder.rmdir()
