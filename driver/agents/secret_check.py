"""Finds secrets that an item's commit would publish: this machine's secrets, and look-alikes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driver.backend_api.driver import WorkerResult
from driver.domain.commit_message import commit_message
from driver.domain.results import MODE_NESTED, Change
from driver.domain.work_item import WorkItem
from driver.workspace.clone_context import CloneContext
from state_store.redaction.installed import redacted, redacted_value
from state_store.values.lazy_dataclass import replace
from tools.secret_rules.known_values import secrets_of
from tools.secret_rules.publishing import objections
from tools.settings.load import Settings

_AT_ONCE = 64
_MESSAGE = "the message of the commit"


def check_secrets(
    context: CloneContext | None, changes: Sequence[Change], item: WorkItem, settings: Settings
) -> list[str]:
    """A sentence for each secret in the changes and in the commit message, with its line but not
    its value. In a folder that is in no repository nothing is published, so the result is empty."""
    if context is None:
        return []
    known = _known(settings)
    message = commit_message([(item, ".")], "", "").encode()
    return objections(_MESSAGE, message, known) + [
        sentence
        for change, now, before in _contents(context, changes)
        for sentence in objections(change.path, now, known, before)
    ]


def without_secrets(text: str, settings: Settings) -> str:
    """The output of another program without the values of this machine's secrets."""
    for name, value in _known(settings).items():
        text = text.replace(value, f"[{name}]")
    return text


def redacted_result(result: WorkerResult) -> WorkerResult:
    """The answer with redacted texts. The files of the work are judged elsewhere: a secret in one
    refuses the work."""
    fault = result.fault
    if fault is not None:
        fault = replace(fault, message=redacted(fault.message))
    return replace(
        result,
        text=redacted(result.text),
        error=redacted(result.error) if result.error else result.error,
        structured=redacted_value(result.structured),
        fault=fault,
    )


def _known(settings: Settings) -> dict[str, str]:
    backends = filter(None, (settings.backend, settings.review_backend))
    return secrets_of(settings.environ, [b.api_key_env for b in backends if b.api_key_env])


def _contents(
    context: CloneContext, changes: Sequence[Change]
) -> Iterator[tuple[Change, bytes, bytes | None]]:
    """Each new or changed file with its bytes now and before. Only some files are in memory at a
    time."""
    files = [change for change in changes if change.blob and change.mode != MODE_NESTED]
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        ids = (blob for change in some for blob in (change.blob, _before(change)))
        held = context.git.contents(blob for blob in ids if blob)
        for change in some:
            before = _before(change)
            yield change, held[change.blob or ""], held[before] if before else None


def _before(change: Change) -> str | None:
    return None if change.base_mode == MODE_NESTED else change.base_blob
