"""Checks of ``Host`` and ``Origin``: the names that a caller may use, and the web pages that may call. Pure.

A page cannot choose its ``Origin``, and ``Host`` shows a foreign name that points at this machine (DNS rebinding).
"""

import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from claw import is_loopback

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")


def listening_address(bind: str) -> str:
    """Return the address of ``gateway.bind`` for a socket."""
    return "127.0.0.1" if bind in ("loopback", "localhost") else bind.strip("[]")


def names(hosts: Iterable[str], origins: Iterable[str]) -> frozenset[str]:
    """Return the names that the operator listed, in lower case, without port."""
    listed = {urlsplit(origin).hostname or "" for origin in origins if origin != "*"}
    return frozenset({host.strip().lower() for host in hosts} | listed) - {""}


def can_be_host(listed: str) -> bool:
    """Return true if a request may name this entry of ``channels.http.hosts``: a name or an address, and no port."""
    name = listed.strip()
    if ":" not in name:
        return re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", name) is not None
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def host_fits(host: str | None, bind: str, listed: Collection[str]) -> bool:
    """Return true if ``Host`` is this machine, a listed name, or, on a public bind address, any IP
    address.
    """
    match = _HOST.fullmatch(host or "")
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    if name == "localhost" or name in listed:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return is_loopback(name) or not is_loopback(listening_address(bind))


def origin_fits(origin: str | None, host: str | None, host_is_ours: bool, allowed: Collection[str]) -> bool:
    """Return true if a page of ``origin`` may call: no origin, a listed one, or the listener's own."""
    if origin is None:
        return True
    if origin == "null":
        return False
    plain = origin.lower().rstrip("/")
    if "*" in allowed or plain in {one.lower().rstrip("/") for one in allowed}:
        return True
    return host_is_ours and bool(host) and plain == f"http://{(host or '').lower()}"
