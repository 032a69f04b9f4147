"""A text stream that shows no known secret: stdout and stderr of every program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from state_store.redaction.installed import hide, redacted, scope
from tools.secret_rules.names import may_be_secret

if TYPE_CHECKING:
    from typing import TextIO


class RedactingStream:
    """Writes to `stream` without known secrets. Everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text, and returns the length that the caller gave."""
        self._stream.write(redacted(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes the lines as one text, so that a secret may go over their ends."""
        self._stream.write(redacted("".join(lines)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def hiding_secrets(environ: Mapping[str, str]) -> Iterator[None]:
    """Hides the secrets of the environment in all texts of this process, and on stdout and stderr.
    Settings add to them with `hide`."""
    before = sys.stdout, sys.stderr
    with scope():
        if any(may_be_secret(name, value) for name, value in environ.items()):
            from tools.secret_rules.hidden_values import hidden_values  # noqa: PLC0415 - by need

            hide(hidden_values(environ))
        ours = tuple(s and cast("TextIO", RedactingStream(s)) for s in before)
        sys.stdout, sys.stderr = ours
        try:
            yield
        finally:
            # What took the place of ours stays: a full disk must not be met again at the end.
            if sys.stdout is ours[0]:
                sys.stdout = before[0]
            if sys.stderr is ours[1]:
                sys.stderr = before[1]
