"""Compare what a plugin was seen to use with the ``capabilities`` that its manifest declares. Pure."""

import ipaddress
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any


def undeclared_access(
    declared: Mapping[str, Any], seen: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return what was used and is not declared: ``capabilities.NAME`` → hosts, programs or paths.

    An address counts as declared when any host is: it may be what that name resolved to. Declared paths and programs are
    descriptions for people, so any is enough.

    :param declared: ``capabilities`` of the manifest.
    :param seen: network (hosts), subprocess (programs) and paths (files opened for writing).
    """
    network = declared.get("network")
    hosts = [
        host
        for host in seen.get("network", ())
        if not network or (isinstance(network, list) and not _is_declared(host, network))
    ]
    used = {"network": hosts} | {
        name: seen.get(name, ()) for name in ("subprocess", "paths") if not declared.get(name)
    }
    return {f"capabilities.{name}": tuple(dict.fromkeys(what)) for name, what in used.items() if what}


def _is_declared(host: str, declared: Sequence[Any]) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return any(fnmatchcase(host, str(one)) for one in declared)
    return True
