"""The chat command ``/approve``: open requests and answers to them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from claw import ApprovalRequest, UsageError, t
from claw.runtime import FunctionCommand

from claw_approvals.approvals import Approvals
from claw_approvals.question import VERDICTS

if TYPE_CHECKING:
    from claw_channel_sdk import Conversation


async def _approve(arguments: str, conversation: "Conversation") -> str:
    words = arguments.split()
    if not words:
        rows = [f"{id}: {about}" for id, about in await conversation.call(_open_requests, conversation)]
        return "\n".join(rows) or _nothing()
    verdict = words[1].lower() if len(words) > 1 else "once"
    if verdict not in VERDICTS or len(words) > 2:
        raise UsageError("usage: /approve ID once|always|deny", fix="/approve ID deny")
    return str(await conversation.call(_decide, conversation, words[0], verdict))


def _nothing() -> str:
    return t("no request is waiting for your answer")


def _approvals_of(conversation: "Conversation") -> Approvals | None:
    """Return the approvals of this plugin; None while another approver is in force."""
    approver = conversation.runtime.registry.approver
    return approver.value if approver and isinstance(approver.value, Approvals) else None


async def _decide(conversation: "Conversation", id: str, verdict: str) -> str:
    """Answer an open request as the person of this message; the messages of requests that are over lose their buttons."""
    approvals, inbound = _approvals_of(conversation), conversation.inbound
    if approvals is None:
        return _nothing()
    channel, sender = inbound.address.channel, inbound.sender
    answer = approvals.decide(id, verdict, channel=channel, sender=sender, owner=conversation.is_owner)
    await approvals.close_messages()
    return answer.text


def _open_requests(conversation: "Conversation") -> Sequence[tuple[str, str]]:
    """Return the open requests that this person may answer: id and subject."""
    approvals, inbound = _approvals_of(conversation), conversation.inbound
    if approvals is None:
        return ()
    return [
        (one.id, f"{one.request.agent} · {one.request.tool}\n{_shown_here(one.request, conversation)}")
        for one in approvals.pending()
        if approvals.may_decide(
            inbound.address.channel, inbound.sender, conversation.is_owner, one.request.for_owners
        )
    ]


def _shown_here(request: ApprovalRequest, conversation: "Conversation") -> str:
    """Return the shown text; in a group, hide a request from another chat."""
    here, there = (replace(one, thread=None) for one in (conversation.inbound.address, request.address))
    if conversation.is_direct or here == there:
        return request.shown
    return t("requested in another chat; /approve shows it in full there, or in a private chat")


APPROVE = FunctionCommand(
    "approve",
    "answer an approval request",
    _approve,
    "[ID [once | always | deny]]",
    position=60,
)
