"""Tables whose whole part belongs to a later issue: each row is an expected failure that names the issue."""

_GATEWAY = "issue: The gateway and three real channels"
_LASTS = "issue: A conversation that lasts"
_MODELS = "issue: Models that do not fail"
_SAFE = "a later issue: the full guard of commands and of the network"
_CLOCK = "a later issue: the clock"
_PLUGINS = "issue: Plugins as a product"

TABLES_OF_LATER_ISSUES = {
    "ssrf_url": _SAFE,
    "heartbeat_ack": _CLOCK,
    "heartbeat_file_empty": _CLOCK,
    "active_hours": _CLOCK,
}
