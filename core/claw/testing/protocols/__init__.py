"""The protocols of the loopback model services: what each refuses, and how it says a reply. Pure.

A protocol is a module with ``check(headers, body)``, ``whole(reply, body, number)``, ``stream(reply, body, number)``
and ``error(kind, message)``.
"""

from typing import Any


class Refusal(Exception):
    """The service would answer this request with an error.

    :param body: the JSON of that answer.
    """

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body
