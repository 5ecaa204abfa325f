"""The chat command ``/approve``, until the plugin ``approvals`` registers it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from claw import UsageError, t
from claw.runtime import Conversation, FunctionCommand
from claw_approvals.question import ApprovalRequest

DECISIONS = ("once", "always", "deny")


async def _approve(arguments: str, conversation: Conversation) -> str:
    words = arguments.split()
    if not words:
        rows = [f"{id}: {about}" for id, about in await conversation.call(_open_requests, conversation)]
        return "\n".join(rows) or t("no request is waiting for your answer")
    verdict = words[1].lower() if len(words) > 1 else "once"
    if verdict not in DECISIONS or len(words) > 2:
        raise UsageError("usage: /approve ID once|always|deny", fix="/approve ID deny")
    return str(await conversation.call(_decide, conversation, words[0], verdict))


def _decide(conversation: Conversation, id: str, verdict: str) -> str:
    """Answer an open approval request as the person of this message."""
    approvals, inbound = conversation.runtime.approvals, conversation.inbound
    if approvals is None:
        return t("no request is waiting for your answer")
    who: dict[str, Any] = {"channel": inbound.address.channel, "sender": inbound.sender}
    return str(approvals.decide(id, verdict, owner=conversation.is_owner, **who).text)


def _open_requests(conversation: Conversation) -> Sequence[tuple[str, str]]:
    """Return the open approval requests that this person may answer: id and subject."""
    approvals, inbound = conversation.runtime.approvals, conversation.inbound
    if approvals is None:
        return ()
    may = partial(approvals.may_decide, inbound.address.channel, inbound.sender, conversation.is_owner)
    asked = [(one.id, one.request) for one in approvals.pending() if may(one.request.for_owners)]
    return [
        (id, f"{request.agent} · {request.tool}\n{_shown_here(request, conversation)}")
        for id, request in asked
    ]


def _shown_here(request: ApprovalRequest, conversation: Conversation) -> str:
    """Return the shown text; in a group, hide a request from another chat."""
    here, there = (replace(one, thread=None) for one in (conversation.inbound.address, request.origin))
    if conversation.is_direct or here == there:
        return request.shown
    return t("requested in another chat; /approve shows it in full there, or in a private chat")


COMMANDS = (
    FunctionCommand(
        "approve",
        "answer an approval request",
        _approve,
        "[ID [once | always | deny]]",
        position=60,
    ),
)
