"""The name of this process in leases and events."""

from __future__ import annotations

import os
import secrets
import socket
import string
from functools import cache


@cache
def _name_of(pid: int) -> str:
    # Keyed by pid, so that a forked child has another name.
    alphabet = string.ascii_lowercase + string.digits
    return f"{socket.gethostname()}:{pid}:{''.join(secrets.choice(alphabet) for _ in range(6))}"


def get_instance_id() -> str:
    """`host:pid:<6 letters or digits>`, constant for this process."""
    return _name_of(os.getpid())
