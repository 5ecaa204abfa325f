"""Tools: functions that a model may call, made from typed functions; their context; and running them.

A tool is plugin code: whatever it raises or returns, and if it never returns, the model gets a result to act
on.
"""

import asyncio
import contextvars
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, overload

from claw.contracts import tool_schema as args
from claw.contracts.errors import ClawError, ToolError
from claw.contracts.text import repair_text, truncate_blocks
from claw.contracts.transcript import Image, Text
from claw.host.isolation import DaemonThreadPool, is_own_exit
from claw.i18n import t
from claw.security.workspace_fs import WorkspaceFiles


class Sandbox(Protocol):
    """An isolated environment for commands: its name, and how to wrap a command line for it."""

    name: str

    async def probe(self) -> str:
        """Test it; return an empty text when it works here, else the reason."""
        ...

    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> list[str]:
        """Return the command line that runs ``argv`` inside the sandbox, with write access only below
        ``workspace``.
        """
        ...


def choose_sandbox(mode: str, wanted: str, there: Mapping[str, Sandbox]) -> Sandbox | None:
    """Return the sandbox for a turn; None when none is configured. It never falls back to none silently.

    :param mode: ``off``, ``all`` or ``non-main`` from ``sandbox.mode``.
    :param wanted: ``sandbox.backend``; empty = any installed one.
    :raises ClawError: one is configured and not installed.
    """
    if mode == "off":
        return None
    if wanted and wanted in there:
        return there[wanted]
    if not wanted and there:
        return next(iter(there.values()))
    raise ClawError(
        "this agent runs in a sandbox, and no sandbox {wanted} is installed",
        where="sandbox.mode",
        fix="install a plugin that brings one, or set sandbox.mode: off",
        wanted=wanted,
    )


THREADS = 8
"""Limit of plain functions of one package that run at once."""
GRACE_SECONDS = 4.0
"""Time for a cancelled tool to clean up before it is abandoned."""

_log = logging.getLogger(__name__)
_abandoned: set["asyncio.Task[Any]"] = set()

Effects = Literal["none", "idempotent", "once"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer of a tool (exported as ``claw.ToolResult``).

    :param content: text or blocks for the model; a plain string is one text block.
    :param details: for programs (events, ``--json``); never sent to a model.
    :param ends_turn: when every call of a batch says so, the run ends without asking the model again.
    :param most_chars: limit of characters for the model, below its own limit; the whole text is stored, and
        the agent can read on there. None = the model's own limit.
    """

    content: str | tuple[Text | Image, ...]
    details: Any = None
    is_error: bool = False
    ends_turn: bool = False
    most_chars: int | None = None

    @property
    def blocks(self) -> tuple[Text | Image, ...]:
        """The content as blocks."""
        return (Text(self.content),) if isinstance(self.content, str) else self.content


@dataclass(frozen=True, slots=True)
class Tool:
    """A named function with a JSON Schema for its arguments.

    :param parameters: JSON Schema of type object.
    :param run: called with validated arguments and a context; answers with str, dict or Result.
    :param optional: an operator must name it (or its plugin) in an allow list.
    :param owner_only: hidden from senders who are not owners.
    :param effects: none and idempotent calls may run again after a crash; a ``once`` call with unknown
        outcome may not.
    :param parallel: may run beside other calls of the same answer.
    :param timeout_seconds: None = no limit of its own.
    :param plugin: id of the plugin that brought it; set by the host, never by the plugin.
    :param close: awaited when claw stops, for a tool that keeps something running.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[dict[str, Any], "ToolContext"], Awaitable[Any]]
    optional: bool = False
    owner_only: bool = False
    effects: Effects = "none"
    parallel: bool = True
    timeout_seconds: float | None = None
    plugin: str = ""
    close: Callable[[], Awaitable[None]] | None = None


class ApprovalCallback(Protocol):
    """The call with which a running tool requests a person's approval; see :class:`ToolContext`."""

    async def __call__(self, shown: str, title: str = "", seal: str = "") -> bool: ...


async def _no_person(shown: str, title: str = "", seal: str = "") -> bool:
    return False


@dataclass(frozen=True)
class ToolContext:
    """The context that the host gives a running tool. A parameter annotated with it is filled in and left out
    of the schema.

    :param owner: the person behind this turn is an owner; False when unknown.
    :param agent: the agent as configured (``claw.config.Agent``): id, name, workspace, settings.
    :param files: the file access of this agent, limited to its folders.
    :param fetch: network access for addresses that come from content or a model.
    :param state_dir: the plugin's own folder under ``CLAW_HOME``.
    :param progress: report to the person how far a long call is.
    :param send: send a text to the conversation this turn came from; returns the message ids.
    :param talk: wider chat access, a :class:`claw.ChatApi`: other chats that the settings name, files, edits,
        reactions.
    :param status: facts of the turn: model, context_tokens, used_tokens, session_key, zone, thinking, turn.
    :param environment: what a child process may see (already filtered).
    :param ask: request a person's approval of the whole text (``await context.ask(shown, title)``): True when
        they allow it, False when nobody can be asked here, ToolError (worded for the model) when they deny it
        or do not answer in time. The wait counts towards ``timeout_seconds``. Ask before the first effect:
        until the answer a call counts as not begun, so a call that a restart cut off is repeated and finds
        its approval request again. Pass a digest of other data that the approval covers (a file's bytes) as
        ``seal``; it must then be the same.
    :param memory: the folder with the memory that this chat may see: the agent's own (``MEMORY.md``,
        ``memory/``) in a private chat of an owner, else one with the notes of this chat alone. None: no
        memory may be seen.
    :param wrap: in a sandboxed run, makes the command line that runs a command inside the sandbox; a tool
        that starts a process must use it. None: there is no sandbox.
    """

    call_id: str
    session_key: str
    agent: Any
    owner: bool
    files: WorkspaceFiles
    fetch: Any
    state_dir: Path
    progress: Callable[[str], None]
    send: Callable[[str, tuple[str, ...]], Awaitable[tuple[str, ...]]]
    status: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[Sequence[str]], list[str]] | None = None
    ask: ApprovalCallback = _no_person
    talk: Any = None
    memory: Path | None = None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    parameters: Mapping[str, Any] | None = ...,
    optional: bool = ...,
    owner_only: bool = ...,
    effects: Effects = ...,
    parallel: bool = ...,
    timeout_seconds: float | None = ...,
    close: Callable[[], Awaitable[None]] | None = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    parameters: Mapping[str, Any] | None = None,
    **traits: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a :class:`Tool` of a typed function: ``@tool``, or ``@tool(optional=True, effects="once")``.

    The schema comes from the annotations, the description from the first paragraph of the docstring, those of
    the arguments from its ``:param x:`` lines. An async function runs on the event loop; a plain one in one
    of the :data:`THREADS` threads of its package. A parameter annotated ``ToolContext`` is filled in by the
    host.

    :param parameters: JSON Schema to use instead of the signature's; the function then gets the validated
        arguments by keyword, unconverted.
    :param traits: ``optional``, ``owner_only``, ``effects``, ``parallel``, ``timeout_seconds``, ``close`` of
        :class:`Tool`.
    :raises ClawError: the signature cannot be offered to a model.
    """

    def make(function: Callable[..., Any]) -> Tool:
        schema: Mapping[str, Any]
        if parameters is None:
            schema, read, host_parameter = args.schema_of_function(function, ToolContext)
        else:
            schema, read, host_parameter = parameters, dict, args.host_parameter(function, ToolContext)
        in_loop = inspect.iscoroutinefunction(function)

        async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
            values = read(arguments)
            if host_parameter:
                values[host_parameter] = context
            if in_loop:
                return await function(**values)
            return await _in_thread(function, values)

        named = name or function.__name__
        return Tool(
            named,
            description or args.first_paragraph(function) or named.replace("_", " "),
            schema,
            run,
            **traits,
        )

    return make if function is None else make(function)


def validate(tool: Tool, arguments: Any) -> tuple[dict[str, Any], str]:
    """Check a model's arguments against the tool's schema.

    :returns: the arguments, nulls for optional ones left out, and an empty text; or the problem, worded for
        the model.
    """
    try:
        kept, problem = args.check_arguments(tool.parameters, arguments)
    except Exception as error:  # noqa: BLE001  a plugin's schema: any error in it is the tool's
        return {}, _attribute(tool, t("its parameters are not a sound JSON Schema: {error}", error=error))
    if problem:
        problem = t("Invalid arguments for {tool}:", tool=tool.name) + "\n" + problem
    return kept, problem


async def check_and_run(tool: Tool, arguments: Any, context: ToolContext) -> ToolResult:
    """Check the arguments, then :func:`run` the tool."""
    kept, problem = validate(tool, arguments)
    return ToolResult(problem, is_error=True) if problem else await run(tool, kept, context)


async def run(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, grace_seconds: float = GRACE_SECONDS
) -> ToolResult:
    """Run a tool with arguments that :func:`validate` accepted. It raises nothing but ``CancelledError``.

    :param grace_seconds: a tool that does not end within this time of its cancellation is abandoned.
    """
    task = asyncio.create_task(_isolated(tool, arguments, context), name=f"tool {tool.name}")
    try:
        await asyncio.wait({task}, timeout=tool.timeout_seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            await _stop(task, tool, grace_seconds)
    seconds = tool.timeout_seconds
    late = t("{tool} took longer than {seconds:g} s and was stopped", tool=tool.name, seconds=seconds)
    return ToolResult(late, is_error=True)


def fit_result(result: ToolResult, limit: int, suffix: str | None = None) -> ToolResult:
    """Cut the texts of a result to ``limit`` characters together; images stay.

    :param limit: :func:`claw.contracts.text.result_limit` of the model that will read it.
    :param suffix: ends a cut text; None = the number of omitted characters.
    """
    blocks = truncate_blocks(result.blocks, limit, suffix)
    return result if blocks == result.blocks else replace(result, content=blocks)


async def _isolated(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Run the tool and return a result, whatever the plugin does. Only our own cancellation passes through."""
    try:
        return _as_result(tool, await tool.run(arguments, context))
    except ToolError as error:
        return ToolResult(repair_text(_text_of(error)), is_error=True)
    except BaseException as error:
        if is_own_exit(error):
            raise
        _log.info("tool %s of plugin %s raised", tool.name, tool.plugin, exc_info=error)
        message = _text_of(error).strip()
        if " " not in message:  # KeyError('x') says nothing without its name
            message = f"{type(error).__name__}: {message}".removesuffix(": ")
        details = {"error": type(error).__name__, "plugin": tool.plugin}
        return ToolResult(repair_text(_attribute(tool, message)), details, is_error=True)


async def _stop(task: "asyncio.Task[Any]", tool: Tool, grace_seconds: float) -> None:
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=grace_seconds)
    if not done:
        line = t(
            "the tool {tool} (plugin {plugin}) was stopped and did not end: it is left behind, its answer dropped",
            tool=tool.name,
            plugin=tool.plugin or "-",
        )
        _log.warning(line)
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  __str__ can be a plugin's code too
        return type(error).__name__


def _attribute(tool: Tool, message: str) -> str:
    return t("{message} (plugin {plugin})", message=message, plugin=tool.plugin) if tool.plugin else message


def _as_result(tool: Tool, answer: Any) -> ToolResult:
    if isinstance(answer, str):
        return ToolResult(repair_text(answer))
    if isinstance(answer, dict):
        return ToolResult(
            repair_text(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))), details=answer
        )
    if isinstance(answer, ToolResult):
        if isinstance(answer.content, str):
            return replace(answer, content=repair_text(answer.content))
        given = answer.content
        if isinstance(given, list | tuple) and all(isinstance(block, Text | Image) for block in given):
            blocks = (Text(repair_text(block.text)) if isinstance(block, Text) else block for block in given)
            return replace(answer, content=tuple(blocks))
        kind = "ToolResult(content=…)"
    else:
        kind = type(answer).__name__
    wrong = t(
        "{tool} answered with {kind}; a tool answers with str, dict or ToolResult", tool=tool.name, kind=kind
    )
    return ToolResult(_attribute(tool, wrong), is_error=True)


async def _in_thread(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    def call() -> tuple[Any, BaseException | None]:
        try:
            return contextvars_here.run(function, **values), None
        except BaseException as error:  # noqa: BLE001  handed on as a value: a future cannot carry StopIteration
            return None, error

    contextvars_here = contextvars.copy_context()
    answer, error = await _threads(function.__module__.partition(".")[0]).run(call)
    if error is not None:
        raise error
    return answer


@cache
def _threads(package: str) -> DaemonThreadPool:
    """Return the thread pool of a package, so that a plugin that blocks stops only itself."""
    return DaemonThreadPool(THREADS, f"tools of {package}")
