"""What running dispatches may use beyond their reservations, as one that ran beside them did. Pure.

A reservation is made from what was known. When a use turns out larger, those of its kind that were
reserved before that count as large as that one until they have ended; those reserved later were
reserved with better knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from state_store.kept_spend import OpenUse, Overrun


def beyond(running: Iterable[OpenUse], overruns: Sequence[Overrun]) -> tuple[int, int]:
    """Tokens and micro-USD to be set aside for `running` above what they reserved."""
    more = [_beyond(use, overruns) for use in running]
    return sum(tokens for tokens, _ in more), sum(usd for _, usd in more)


def _beyond(use: OpenUse, overruns: Sequence[Overrun]) -> tuple[int, int]:
    purpose, held = use.reserved.purpose, use.reserved
    kind = (purpose.backend, purpose.model, purpose.phase)
    beside = [one for one in overruns if one.kind == kind and one.settled >= use.since]
    return (
        max([0, *(one.tokens - held.tokens for one in beside)]),
        max([0, *(one.usd - held.usd for one in beside)]),
    )
