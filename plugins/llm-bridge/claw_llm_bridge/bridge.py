"""Conversion of llm tools to claw tools, and their calls."""

import asyncio
import inspect
import json
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, distribution
from typing import Any

from claw import Image, Text, Tool, ToolContext, ToolError, ToolResult
from claw_tool_sdk import tool_shares

from claw_llm_bridge import inspection
from claw_llm_bridge.catalogue import BridgeSettings, LlmPlugin, LlmTool
from claw_llm_bridge.repair import commands

_log = logging.getLogger(__name__)
_BOXES = 64
"""Maximum number of open toolboxes; the least recently used is closed first."""


class WorkerThread:
    """One thread for jobs that must share a thread: toolboxes hold database connections and the like."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def do(self, job: Callable[[], Any]) -> Any:
        """Run ``job`` in the thread, after the earlier jobs."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def run() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = job(), None
            except BaseException as why:  # noqa: BLE001 - third-party code; handed on
                outcome = None, why
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, done, outcome)

        self._jobs.put(run)
        answer, why = await done
        if why is not None:
            raise why
        return answer

    def end(self) -> None:
        """Accept no more jobs."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(done: "asyncio.Future[Any]", outcome: Any) -> None:
    if not done.done():
        done.set_result(outcome)


class Bridge:
    """The llm plugins, imported when one of their tools is called.

    A toolbox lives as long as the conversation that opened it: its data is not visible to other
    conversations.
    """

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._brought: dict[tuple[str, str], list[Any]] = {}
        self._importing = threading.Lock()
        self._boxes: OrderedDict[tuple[str, str, str], tuple[WorkerThread, Any]] = OrderedDict()

    async def call(
        self, plugin: LlmPlugin, line: LlmTool, arguments: dict[str, Any], context: ToolContext
    ) -> ToolResult:
        """Call one tool.

        :raises ToolError: it failed, or its plugin cannot be imported; the text has the fix.
        """
        key = (plugin.name, line.box, context.session_key)
        worker, owner = self._place(key)
        try:
            return result_of(await self._answer(plugin, line, arguments, context, worker, owner))
        except asyncio.CancelledError:  # it may hang there: the next call gets a new one
            self._boxes.pop(key, None)
            worker.end()
            raise
        finally:
            if not line.box:
                worker.end()

    async def _answer(
        self,
        plugin: LlmPlugin,
        line: LlmTool,
        arguments: dict[str, Any],
        context: ToolContext,
        worker: WorkerThread,
        owner: dict[str, Any],
    ) -> Any:
        try:
            implementation = await worker.do(lambda: self._implementation(plugin, line, owner))
        except asyncio.CancelledError:
            raise
        except BaseException as why:
            raise await asyncio.to_thread(_import_error, plugin, why) from why
        if "llm_tool_call" in inspect.signature(implementation).parameters:
            arguments = {**arguments, "llm_tool_call": _tool_call(line, arguments, context)}
        try:
            if inspect.iscoroutinefunction(implementation):
                return await implementation(**arguments)
            return await worker.do(lambda: implementation(**arguments))
        except asyncio.CancelledError:
            raise
        except BaseException as why:
            kind = type(why).__name__
            template = "{kind}: {why} (llm plugin {plugin})"
            raise ToolError(template, kind=kind, why=why, plugin=plugin.name) from why

    async def close(self) -> None:
        """Close all toolboxes."""
        while self._boxes:
            self._boxes.popitem()[1][0].end()

    def _place(self, key: tuple[str, str, str]) -> tuple[WorkerThread, dict[str, Any]]:
        """Return the worker of a call, and the holder of the conversation's toolbox."""
        plugin, box, _ = key
        if not box:
            return WorkerThread(f"llm {plugin}"), {}
        if key not in self._boxes:
            self._boxes[key] = (WorkerThread(f"llm {box}"), {})
            if len(self._boxes) > _BOXES:
                self._boxes.popitem(last=False)[1][0].end()
        self._boxes.move_to_end(key)
        return self._boxes[key]

    def _implementation(self, plugin: LlmPlugin, line: LlmTool, owner: dict[str, Any]) -> Callable[..., Any]:
        with self._importing:
            key = (plugin.name, plugin.entry)
            if key not in self._brought:
                self._brought[key] = inspection.registered(_entry(plugin))
        if line.box and "box" not in owner:
            box = next(t for t in self._brought[key] if inspect.isclass(t) and t.name == line.box)  # type: ignore[attr-defined]
            owner["box"] = inspection.opened(box, self._settings.toolboxes.get(line.box, {}))
        tools = (
            owner["box"].tools() if line.box else (t for t in self._brought[key] if not inspect.isclass(t))
        )
        for one in tools:
            if one.name == line.name:
                return one.implementation  # type: ignore[no-any-return]
        raise LookupError(f"it does not bring {line.name} any more")


def tools_of(plugins: Iterable[LlmPlugin], settings: BridgeSettings) -> list[Tool]:
    """Return every tool of these plugins, optional, named after its plugin."""
    bridge, known = Bridge(settings), {(plugin.name, plugin.entry): plugin for plugin in plugins}
    shares = tool_shares({key: len(plugin.tools) for key, plugin in known.items()})
    for key, most in shares.items():
        if most < (count := len(known[key].tools)):
            _log.warning(
                "llm-bridge: %s has %d tools, and the first %d of them are used", key[0], count, most
            )
    return [
        _tool(bridge, plugin, line, settings.timeout_seconds)
        for key, plugin in known.items()
        for line in plugin.tools[: shares[key]]
    ]


def _tool(bridge: Bridge, plugin: LlmPlugin, line: LlmTool, seconds: float) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await bridge.call(plugin, line, arguments, context)

    return Tool(
        name=plugin.full_name(line),
        description=f"{line.description}\n(llm plugin {plugin.name})",
        parameters=line.parameters,
        run=run,
        optional=True,
        effects="once",
        timeout_seconds=seconds,
        close=bridge.close,
    )


def result_of(answer: Any) -> ToolResult:
    """Convert a tool's answer as llm passes it to a model: text as it is, anything else as JSON."""
    attachments: tuple[Any, ...] = ()
    if hasattr(answer, "attachments") and hasattr(answer, "output"):  # llm.ToolOutput
        answer, attachments = answer.output, tuple(answer.attachments)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=repr)
    return ToolResult((Text(text), *(_attachment(one) for one in attachments)))


def _attachment(one: Any) -> Text | Image:
    kind = one.resolve_type() or ""
    if kind.startswith("image/") and not one.url:
        return Image(one.base64_content(), kind)
    return Text(f"[attachment: {one.url or one.path or kind}]")


def _tool_call(line: LlmTool, arguments: dict[str, Any], context: ToolContext) -> Any:
    from llm import ToolCall

    return ToolCall(line.name, arguments, context.call_id)


def _entry(plugin: LlmPlugin) -> EntryPoint:
    found = distribution(plugin.name).entry_points.select(group=inspection.GROUP, name=plugin.entry)
    return next(iter(found))


def _import_error(plugin: LlmPlugin, why: BaseException) -> ToolError:
    said = f"{type(why).__name__}: {why}"
    fixes = commands(plugin.name, absent=isinstance(why, ImportError))
    if fixes:
        return ToolError(
            "the llm plugin {plugin} cannot be used: {why}. The operator fixes it with: {command}",
            plugin=plugin.name,
            why=said,
            command=" && ".join(fixes),
        )
    return ToolError("the llm plugin {plugin} cannot be used: {why}", plugin=plugin.name, why=said)
