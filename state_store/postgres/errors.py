"""Translates psycopg's errors into errors with a remedy. No other module does this."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from state_store.database.errors import StoreBusyError
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.postgres.driver import driver
from state_store.postgres.schema import OTHER_SESSION
from state_store.sql.addresses import Address

T = TypeVar("T")


class TryAgainError(StoreBusyError):
    """The transaction was not committed, and may succeed if it is run again."""


_AGAIN = ("40001", "40P01", "57P01", "57P02", "57P03", "25P03", "25P04")
_LOST = "08"
_PAUSE_S = 0.05  # before the second try; it doubles
_MOST_PAUSE_S = 2.0
_MIXED = (
    "was asked in a session that lacks its tables ({why}); make sure that nobody has dropped the "
    "schema, and that a pooler has pool_mode = session"
)
_CANNOT = {
    "42501": "does not let {user} do this ({why}); grant it, or name another user",
    "25006": "takes no writes: it is a standby, or read-only; name the primary server",
    "53100": "cannot be written: its disk is full; make room and run again",
    "53200": "has no memory left; make room and run again",
    "53300": "takes no more connections; raise max_connections, or run fewer machines",
    "XX001": "reports damaged data ({why}); restore a backup",
    "XX002": "reports a damaged index ({why}); run REINDEX there, and run again",
    **dict.fromkeys((OTHER_SESSION, "42P01", "42883"), _MIXED),
    "54000": "cannot take so large an event; make it smaller",
}


class translated:
    """Translates psycopg's errors in a block. A class, because it is entered for every event.

    Raises StoreBusyError and CannotRunError. Bugs of ours are not translated.
    """

    __slots__ = ("_address",)

    def __init__(self, address: Address) -> None:
        self._address = address

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (meant := meaning(self._address, error)):
            raise meant from error


def is_lost(error: BaseException) -> bool:
    """True if the error ended the connection, and the transaction with it."""
    state = getattr(error, "sqlstate", None) or ""
    psycopg = driver()
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return not state or state.startswith(_LOST) or state in ("57P01", "57P02", "57P03", "25P03")


def is_away(error: BaseException) -> bool:
    """True if a server that was there does not answer now, or is just starting."""
    why = str(error)
    return any(word in why for word in ("refused", "starting up", "shutting down", "No such file"))


def pause_s(number: int) -> float:
    """The seconds before another try, so that many processes do not come back at once."""
    longest: float = min(_MOST_PAUSE_S, _PAUSE_S * 2 ** min(number, 10))
    return longest * random.uniform(0.5, 1.0)


def persisted(step: Callable[[], T], patience_s: float) -> T:
    """Take a step that changes nothing if it fails, until the server is there again."""
    until = time.monotonic() + patience_s
    for number in range(10**6):
        try:
            return step()
        except (driver().Error, CannotRunError) as error:
            cause = error.__cause__ if isinstance(error, CannotRunError) else error
            is_over = time.monotonic() >= until
            if is_over or cause is None or not (is_away(cause) or is_lost(cause)):
                raise
        time.sleep(pause_s(number))
    raise AssertionError("the time is over before")


def meaning(address: Address, error: BaseException) -> Exception | None:
    """The error with a remedy; None for a bug of ours."""
    if isinstance(error, TidegateError) or not isinstance(error, driver().Error):
        return None
    psycopg = driver()
    state, where = getattr(error, "sqlstate", None) or "", address.name
    why = str(error).strip().partition("\n")[0]
    if state == "55P03":
        return StoreBusyError(
            f"{where} cannot be written: another process does not end its own write and may have "
            "been stopped; let it go on or end it, and run again"
        )
    if state in _AGAIN or is_lost(error):
        return TryAgainError(f"{where} broke off a write ({why}); nothing was recorded, run again")
    if state in _CANNOT:
        user = _user_of(address, psycopg)
        return CannotRunError(f"{where} {_CANNOT[state].format(user=user, why=why)}")
    if isinstance(error, psycopg.DataError) and "NUL" in why:
        return ValueError(f"PostgreSQL cannot store the text: {why}")
    return None


def unreachable(address: Address, error: BaseException) -> CannotRunError:
    """The error for a connection that could not be made."""
    psycopg = driver()
    why = " ".join(str(error).split())
    if isinstance(error, psycopg.ProgrammingError):  # the url, which may have a password
        return CannotRunError("[state] url is no address of a PostgreSQL database; correct it")
    user = _user_of(address, psycopg)
    if "password" in why or "authentication" in why or "pg_hba.conf" in why:
        remedy = f"check the password of {user} (PGPASSWORD, .pgpass) and its rights to log in"
        return CannotRunError(f"{address.name} refuses the login: {_end(why)}; {remedy}")
    if "does not exist" in why:
        return CannotRunError(f"{address.name} is missing: {_end(why)}; create it, or name another")
    return CannotRunError(
        f"{address.name} cannot be reached: {_end(why)}; check that the server runs and the address"
    )


def _end(why: str) -> str:
    """The part that says why, after the names of hosts and ports."""
    return why.rpartition("FATAL:")[2].strip() or why


def _user_of(address: Address, psycopg: Any) -> str:
    try:
        given = psycopg.conninfo.conninfo_to_dict(address.url)
    except psycopg.Error:
        return "the user"
    return f"user {given['user']}" if given.get("user") else "the user"
