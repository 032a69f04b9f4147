"""Decides to which addresses a key and a prompt may be sent. Pure.

https is allowed except to link-local, metadata and unspecified addresses. http is allowed to this
machine only.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit, urlunsplit

from state_store.values.lazy_dataclass import dataclass

_PORTS = {"http": 80, "https": 443}
# Addresses of cloud credentials; fd00:ec2::254 and 100.100.100.200 are not link-local.
_METADATA = frozenset(
    ipaddress.ip_address(one) for one in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200")
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked address. `shown` omits query and user, which may contain a key."""

    shown: str
    origin: tuple[str, str, int]
    loopback: bool


def endpoint(url: str) -> Endpoint:
    """Check an address. Raises ValueError with the reason if it is forbidden."""
    parts, port = _parsed(url)
    host = (parts.hostname or "").lower()
    if parts.scheme not in _PORTS or not host:
        raise ValueError("it must be an https address, or http for this machine")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it holds a user name or password; name the key's variable instead")
    local = is_loopback(host)
    if not local and (problem := _host_problem(host)):
        raise ValueError(problem)
    if parts.scheme == "http" and not local:
        raise ValueError("http is for this machine only (127.0.0.1, [::1], localhost); use https")
    origin = (parts.scheme, host, port or _PORTS[parts.scheme])
    shown = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    return Endpoint(shown, origin, local)


def below(base_url: str, path: str) -> str:
    """`base_url` with `path` appended before its query."""
    parts = urlsplit(base_url.strip())
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}", fragment=""))


def is_loopback(host: str) -> bool:
    """True for 127.0.0.0/8, ::1 and the name localhost."""
    address = as_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def as_address(host: str) -> Address | None:
    """`host` as an IP address, `::ffff:` as IPv4; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def address_problem(address: Address) -> str | None:
    """The reason why this IP address is forbidden, or None."""
    if address.is_link_local or address in _METADATA:
        return "it is a link-local or metadata address, where no model answers"
    if address.is_unspecified or address.is_multicast:
        return "it is not the address of a single machine; for this machine use 127.0.0.1"
    return None


def _parsed(url: str) -> tuple[SplitResult, int | None]:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("it holds a space, a backslash or a character that is not ASCII")
    parts = urlsplit(url)
    if "%" in parts.netloc:
        # urllib decodes it before it connects: 127.0.0.1%2eexample.org is another machine.
        raise ValueError("its host holds a %; write the name or the IP address itself")
    try:
        return parts, parts.port
    except ValueError as error:  # its message may repeat the end of a password
        raise ValueError("its port is not a number from 0 to 65535") from error


def _host_problem(host: str) -> str | None:
    address = as_address(host)
    if address is not None:
        return address_problem(address)
    last = host.rstrip(".").rpartition(".")[2]
    # Resolvers still accept 2852039166 or 0xa9fea9fe as addresses.
    if last.isdigit() or last.startswith("0x"):
        return "it is an IP address in an unusual spelling"
    return None
