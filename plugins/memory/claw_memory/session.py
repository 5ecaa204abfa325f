"""Facts about the audience of a chat, from its session key. Pure; keys are made by claw (``agent:ID:…``)."""

_SHARED = frozenset(("group", "channel"))


def is_shared(session_key: str) -> bool:
    """Return true for a group or channel, where others read along."""
    return not _SHARED.isdisjoint(session_key.split(":")[2:])


def cites(mode: str, session_key: str) -> bool:
    """Return true if answers name files and lines. ``auto``: not where others read along."""
    return mode == "on" or (mode == "auto" and not is_shared(session_key))
