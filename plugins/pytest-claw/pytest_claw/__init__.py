"""Conformance suites for claw plugins: subclass one in your tests and set the object under test.

from pytest_claw import ToolSuite

class TestStatus(ToolSuite):
    tool = acme_status
    sample = {"name": "door"}

Each test checks one promise that claw makes about every plugin of that kind. The tests are plain functions:
they need no
asyncio plugin. Nothing of claw is imported before a suite is.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_claw.approver import ApproverSuite as ApproverSuite
    from pytest_claw.channel import ChannelSuite as ChannelSuite, ServiceSide as ServiceSide
    from pytest_claw.chat_command import ChatCommandSuite as ChatCommandSuite
    from pytest_claw.command import CommandSuite as CommandSuite
    from pytest_claw.context_engine import ContextEngineSuite as ContextEngineSuite
    from pytest_claw.diagnostic import DiagnosticSuite as DiagnosticSuite
    from pytest_claw.faulty_service import FaultSuite as FaultSuite
    from pytest_claw.message_filter import FilterSuite as FilterSuite
    from pytest_claw.middleware import MiddlewareSuite as MiddlewareSuite
    from pytest_claw.observer import ObserverSuite as ObserverSuite
    from pytest_claw.own_protocol import OwnProtocolSuite as OwnProtocolSuite
    from pytest_claw.provider import ProviderSuite as ProviderSuite
    from pytest_claw.reviewer import ReviewerSuite as ReviewerSuite
    from pytest_claw.sandbox import SandboxSuite as SandboxSuite
    from pytest_claw.section import SectionSuite as SectionSuite
    from pytest_claw.selector import ModelSelectorSuite as ModelSelectorSuite
    from pytest_claw.service import ServiceSuite as ServiceSuite
    from pytest_claw.session_store import SessionStoreSuite as SessionStoreSuite
    from pytest_claw.tool import ToolSuite as ToolSuite
    from pytest_claw.turn_log import TurnLogSuite as TurnLogSuite

_MODULES = {
    "ApproverSuite": "approver",
    "ChannelSuite": "channel",
    "ChatCommandSuite": "chat_command",
    "CommandSuite": "command",
    "ContextEngineSuite": "context_engine",
    "DiagnosticSuite": "diagnostic",
    "FaultSuite": "faulty_service",
    "FilterSuite": "message_filter",
    "MiddlewareSuite": "middleware",
    "ModelSelectorSuite": "selector",
    "ObserverSuite": "observer",
    "OwnProtocolSuite": "own_protocol",
    "ProviderSuite": "provider",
    "ReviewerSuite": "reviewer",
    "SandboxSuite": "sandbox",
    "SectionSuite": "section",
    "ServiceSide": "channel",
    "ServiceSuite": "service",
    "SessionStoreSuite": "session_store",
    "ToolSuite": "tool",
    "TurnLogSuite": "turn_log",
}
SUITE_OF_HOOK = {
    "register_channels": "ChannelSuite",
    "register_providers": "ProviderSuite",
    "register_tools": "ToolSuite",
    "register_prompt_sections": "SectionSuite",
    "register_sandboxes": "SandboxSuite",
    "register_provider_middleware": "MiddlewareSuite",
    "register_model_selectors": "ModelSelectorSuite",
    "register_context_engines": "ContextEngineSuite",
    "register_reviewers": "ReviewerSuite",
    "register_approvers": "ApproverSuite",
    "register_filters": "FilterSuite",
    "register_observers": "ObserverSuite",
    "register_services": "ServiceSuite",
    "register_turn_logs": "TurnLogSuite",
    "register_session_stores": "SessionStoreSuite",
    "register_chat_commands": "ChatCommandSuite",
    "register_diagnostics": "DiagnosticSuite",
    "register_commands": "CommandSuite",
}
"""Each hook and the suite for the objects that answer it."""
__all__ = sorted(_MODULES)  # noqa: PLE0605

# An editable install does not list its files, so pytest would not find the modules whose asserts it rewrites.
_PARTS = (
    "channel_base", "channel_trial", "hook", "inbound", "lifecycle", "outbound", "provider_base", "provider_trial",
    "streaming",
)  # fmt: skip
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in sorted({*_MODULES.values(), *_PARTS})))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``claw plugins grade``."""
    group = parser.getgroup("claw")
    group.addoption(
        "--claw-report", metavar="FILE", help="run the suites only, and write what they saw to FILE"
    )
    group.addoption(
        "--claw-package", metavar="PATH", default="", help="the plugin's package, for that report"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the report, if it is asked for."""
    if file := config.getoption("--claw-report"):
        from pytest_claw.report import SuiteReport

        config.pluginmanager.register(
            SuiteReport(Path(file), config.getoption("--claw-package"), SUITE_OF_HOOK), "claw-report"
        )


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
