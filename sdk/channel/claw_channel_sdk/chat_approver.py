"""Approval requests in chats: the contract of an approver that asks there, and the end of open requests."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from claw import ApprovalRequest, Approver, Inbound, Outbound
from claw.runtime import Runtime


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A request that waits for an answer.

    :param id: short; cannot be guessed.
    :param asked_at_ms: milliseconds since 1970, UTC; ``expires_at_ms`` too.
    """

    id: str
    request: ApprovalRequest
    asked_at_ms: int
    expires_at_ms: int

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The possible answers."""
        return ("once", "always", "deny") if self.request.grant else ("once", "deny")


@runtime_checkable
class ChatApprover(Approver, Protocol):
    """An approver whose requests are sent to chats, and answered there with buttons.

    The process that serves the chats sets ``show_request``, which may be called from the plugin's loop; it returns false
    when a request could not be shown.
    """

    show_request: Callable[[PendingApproval], Awaitable[bool]] | None

    def as_message(self, pending: PendingApproval) -> Outbound:
        """Return the request as a message to the chat that its turn came from."""

    def answer_button(self, value: str, inbound: Inbound, owner: bool) -> str | None:
        """Accept the answer of an admitted person; return a line for them, None when it is another button."""


def withdraw_requests(runtime: Runtime, session_key: str) -> int:
    """Close the approval requests that a conversation waits for; return their number."""
    approver = runtime.registry.approver
    withdraw = getattr(approver.value, "withdraw", None) if approver else None
    return withdraw(session_key) if withdraw else 0
