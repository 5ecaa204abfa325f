"""A tool: what a model may call, made from a typed function; what it is given when it runs; and running it.

A tool is a stranger: whatever it raises, returns or never returns becomes a result that the model can act on.
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

from claw import arguments as args
from claw.errors import ToolError
from claw.guard.fence import Fence
from claw.transcript import Image, Text
from claw.truncation import share
from claw.unicode import sound
from claw.wall import Threads, is_ours
from claw.words import say

THREADS = 8
"""Plain functions of one package that may run at once."""
GRACE_SECONDS = 4.0
"""What a cancelled tool may take to clean up before it is left behind."""

_log = logging.getLogger(__name__)
_left_behind: set["asyncio.Task[Any]"] = set()

Effects = Literal["none", "idempotent", "once"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answers (exported as ``claw.ToolResult``).

    :param content: text or blocks for the model; a plain string is one text block.
    :param details: for programs (events, ``--json``); never sent to a model.
    :param ends_turn: when every call of a batch says so, the run ends without asking the model again.
    :param most_chars: a model is shown no more of it than this, if it would be shown more; the whole is kept, and the
        agent reads on there. None = the model's own limit.
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
    :param owner_only: vanishes for senders who are not an owner.
    :param effects: none and idempotent calls may run again after a crash; a ``once`` call with unknown outcome is not.
    :param parallel: may run beside other calls of the same answer.
    :param timeout_seconds: None = no limit of its own.
    :param plugin: id of the plugin that brought it; set by the host, never by the plugin.
    :param close: awaited when the house stops, for a tool that leaves something running.
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


class Ask(Protocol):
    """How a running tool puts something before a person; see :class:`ToolContext`."""

    async def __call__(self, shown: str, title: str = "", seal: str = "") -> bool: ...


async def _nobody(shown: str, title: str = "", seal: str = "") -> bool:
    return False


@dataclass(frozen=True)
class ToolContext:
    """What the host gives a running tool. A parameter annotated with it is filled in and left out of the schema.

    :param owner: the person behind this turn is an owner; False when unknown.
    :param agent: the agent as configured (``claw.config.Agent``): id, name, workspace, settings.
    :param files: the fence round this agent's files.
    :param fetch: the way out to the network, for addresses that come from content or a model.
    :param state_dir: the plugin's own folder under ``CLAW_HOME``.
    :param progress: tell the person how far a long call is.
    :param send: say something in the conversation this turn came from; answers with the message ids.
    :param talk: more of the same, a :class:`claw.Talk`: other chats that the settings name, files, edits, reactions.
    :param status: facts of the turn: model, context_tokens, used_tokens, session_key, zone, thinking, turn.
    :param environment: what a child process may see (already filtered).
    :param ask: put something before a person, the whole of it (``await context.ask(shown, title)``): True when they
        allow it, False when nobody can be asked here, ToolError (in words for the model) when they do not or do not
        answer in time. The wait counts towards ``timeout_seconds``. Ask before the first effect: until the answer a call
        counts as not begun, so that one which a restart cut off is made anew, and finds its question where it was. A
        digest of what else the answer is for (a file's bytes), given as ``seal``, must then be the same.
    :param memory: the folder with all that this chat may see of the memory: the agent's own (``MEMORY.md``, ``memory/``)
        in a private chat of an owner, else one with the notes of this chat alone. None: nothing may be seen.
    :param wrap: in a sandboxed run, makes the command line that runs a command inside its walls; a tool that starts a
        process must use it. None: there is no sandbox.
    """

    call_id: str
    session_key: str
    agent: Any
    owner: bool
    files: Fence
    fetch: Any
    state_dir: Path
    progress: Callable[[str], None]
    send: Callable[[str, tuple[str, ...]], Awaitable[tuple[str, ...]]]
    status: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[Sequence[str]], list[str]] | None = None
    ask: Ask = _nobody
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

    The schema comes from the annotations, the description from the first paragraph of the docstring, those of the
    arguments from its ``:param x:`` lines. An async function runs on the event loop; a plain one in a thread, of
    which its package has :data:`THREADS`. A parameter annotated ``ToolContext`` is filled in by the host.

    :param parameters: JSON Schema to use instead of the signature's; the function then gets the checked arguments by
        keyword, as they are.
    :param traits: ``optional``, ``owner_only``, ``effects``, ``parallel``, ``timeout_seconds``, ``close`` of
        :class:`Tool`.
    :raises ClawError: the signature cannot be offered to a model.
    """

    def make(function: Callable[..., Any]) -> Tool:
        schema: Mapping[str, Any]
        if parameters is None:
            schema, read, host_parameter = args.of_function(function, ToolContext)
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
            named, description or args.summary(function) or named.replace("_", " "), schema, run, **traits
        )

    return make if function is None else make(function)


def validate(tool: Tool, arguments: Any) -> tuple[dict[str, Any], str]:
    """Hold a model's arguments against the tool's schema.

    :returns: the arguments, nulls for optional ones left out, and an empty text; or what the model must mend.
    """
    try:
        kept, problem = args.check(tool.parameters, arguments)
    except Exception as error:  # noqa: BLE001  a stranger's schema: any fault of it is the tool's
        return {}, _blame(tool, say("its parameters are not a sound JSON Schema: {error}", error=error))
    if problem:
        problem = say("Invalid arguments for {tool}:", tool=tool.name) + "\n" + problem
    return kept, problem


async def perform(tool: Tool, arguments: Any, context: ToolContext) -> Result:
    """Check the arguments, then :func:`run` the tool: the whole of a call."""
    kept, problem = validate(tool, arguments)
    return Result(problem, is_error=True) if problem else await run(tool, kept, context)


async def run(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, grace_seconds: float = GRACE_SECONDS
) -> Result:
    """Run a tool with arguments that :func:`validate` let through. It raises nothing but ``CancelledError``.

    :param grace_seconds: a tool that will not end within this time of being cancelled is left behind.
    """
    task = asyncio.create_task(_guarded(tool, arguments, context), name=f"tool {tool.name}")
    try:
        await asyncio.wait({task}, timeout=tool.timeout_seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            await _stop(task, tool, grace_seconds)
    seconds = tool.timeout_seconds
    late = say("{tool} took longer than {seconds:g} s and was stopped", tool=tool.name, seconds=seconds)
    return Result(late, is_error=True)


def fit(result: Result, limit: int, suffix: str | None = None) -> Result:
    """The result with its texts cut to ``limit`` characters together; images stay.

    :param limit: :func:`claw.truncation.result_limit` of the model that will read it.
    :param suffix: what a cut text ends with; None = how much went.
    """
    blocks = share(result.blocks, limit, suffix)
    return result if blocks == result.blocks else replace(result, content=blocks)


async def _guarded(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Result:
    """The wall: a result, whatever the stranger does. Only our own cancelling gets through."""
    try:
        return _as_result(tool, await tool.run(arguments, context))
    except ToolError as error:
        return Result(sound(_words(error)), is_error=True)
    except BaseException as error:
        if is_ours(error):
            raise
        _log.info("tool %s of plugin %s raised", tool.name, tool.plugin, exc_info=error)
        message = _words(error).strip()
        if " " not in message:  # KeyError('x') says nothing without its name
            message = f"{type(error).__name__}: {message}".removesuffix(": ")
        details = {"error": type(error).__name__, "plugin": tool.plugin}
        return Result(sound(_blame(tool, message)), details, is_error=True)


async def _stop(task: "asyncio.Task[Any]", tool: Tool, grace_seconds: float) -> None:
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=grace_seconds)
    if not done:
        told = say(
            "the tool {tool} (plugin {plugin}) was stopped and did not end: it is left behind, its answer dropped",
            tool=tool.name,
            plugin=tool.plugin or "-",
        )
        _log.warning(told)
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  also that can be a stranger's code
        return type(error).__name__


def _blame(tool: Tool, message: str) -> str:
    return say("{message} (plugin {plugin})", message=message, plugin=tool.plugin) if tool.plugin else message


def _as_result(tool: Tool, answer: Any) -> Result:
    if isinstance(answer, str):
        return Result(sound(answer))
    if isinstance(answer, dict):
        return Result(sound(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))), details=answer)
    if isinstance(answer, Result):
        if isinstance(answer.content, str):
            return replace(answer, content=sound(answer.content))
        given = answer.content
        if isinstance(given, list | tuple) and all(isinstance(block, Text | Image) for block in given):
            blocks = (Text(sound(block.text)) if isinstance(block, Text) else block for block in given)
            return replace(answer, content=tuple(blocks))
        kind = "ToolResult(content=…)"
    else:
        kind = type(answer).__name__
    wrong = say(
        "{tool} answered with {kind}; a tool answers with str, dict or ToolResult", tool=tool.name, kind=kind
    )
    return Result(_blame(tool, wrong), is_error=True)


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
def _threads(package: str) -> Threads:
    """Each package has its own, so that a plugin that blocks stops only itself."""
    return Threads(THREADS, f"tools of {package}")
