"""A workspace behind the real fence, and what the host gives a tool."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claw.contracts.tool import ToolContext, ToolResult
from claw.host.worker import check_and_run
from claw.security.workspace_fs import WorkspaceFiles
from claw.testing import FakeChatApi


@dataclass
class Bench:
    """A workspace with tools to try in it."""

    workspace: Path
    tools: dict[str, Any]
    talk: FakeChatApi = field(default_factory=FakeChatApi)
    status: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})
    agent: Any = None
    wrap: Any = None
    session_key: str = "agent:a:main"

    def __post_init__(self) -> None:
        self.files = WorkspaceFiles([], self.workspace)

    @property
    def context(self) -> ToolContext:
        async def send(text: str, attachments: tuple[str, ...]) -> tuple[str, ...]:
            return await self.talk.send(text, attachments)

        agent = self.agent or SimpleNamespace(settings=SimpleNamespace(tools=None))
        return ToolContext(
            "call_1",
            self.session_key,
            agent,
            True,
            self.files,
            self.workspace,
            lambda text: None,
            send,
            self.status,
            self.environment,
            self.wrap,
            talk=self.talk,
        )

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await check_and_run(self.tools[name], arguments, self.context)

    async def ok(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert not result.is_error, result.content
        return result.blocks[0].text

    async def refused(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert result.is_error, result.content
        return result.blocks[0].text

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


LISTED = {"mode": "allowlist", "allow": ["python3", "python"]}
"""``tools.exec`` of these tests, which are about what a list lets through: readers and scripts."""


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    from claw_tools_std import register_tools

    workspace = tmp_path / "workspace"
    workspace.mkdir()
    config = SimpleNamespace(section=lambda key, model: model.model_validate(LISTED))
    tools = {tool.name: tool for tool in register_tools(config)}
    bench = Bench(workspace, tools)
    yield bench
    for tool in tools.values():
        if tool.close:
            await tool.close()
