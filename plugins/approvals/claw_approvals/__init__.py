"""Approval of tool calls by a person: in a chat, at a terminal, once or always; and ``claw approvals``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import Approver, ChatCommand, PluginConfig, Reviewer


@hookimpl
def register_approvers(config: "PluginConfig") -> "Iterable[Approver]":
    """Ask the people whom ``approvals`` and ``owners`` name."""
    from claw.runtime import configured_owners

    from claw_approvals.approvals import Approvals
    from claw_approvals.settings import ApprovalSettings

    settings = config.section("approvals", ApprovalSettings)
    return [
        Approvals(
            config.database,
            config.clock,
            approvers=settings.approvers,
            owners=configured_owners(config.settings),
            timeout_seconds=settings.timeout,
        )
    ]


@hookimpl
def register_reviewers(config: "PluginConfig") -> "Iterable[Reviewer]":
    """Ask about the tools of ``approvals.tools``."""
    from claw_approvals.settings import ApprovalSettings

    words = config.section("approvals", ApprovalSettings).tools
    if not words:
        return []
    from claw_approvals.rules import ApprovalRule

    return [ApprovalRule(words)]


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/approve``."""
    from claw_approvals.chat_command import APPROVE

    return [APPROVE]


@hookimpl
def register_commands(app: Any) -> None:
    """Add ``claw approvals``."""
    from claw_approvals.command import app as approvals_app

    app.add_typer(approvals_app, name="approvals")
