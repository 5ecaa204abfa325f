"""Errors of kept connections, by their texts: a caller has them without the HTTP library."""

STALE_CONNECTION = "a connection kept from an earlier request was closed before an answer"
"""Error text for a failure that may only mean that the service closed an idle kept-alive connection."""
