"""Tools: functions that a model may call, made from typed functions, and their context."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Protocol, TypeVar, overload

from claw.contracts import tool_schema as args
from claw.contracts.text import truncate_blocks
from claw.contracts.transcript import Image, Text
from claw.i18n import t

T = TypeVar("T")


EntryKind = Literal["file", "dir", "link", "other"]


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One directory entry.

    :param name: as on disk; bytes that are not UTF-8 become lone surrogates (``os.fsdecode``).
    """

    name: str
    kind: EntryKind
    size_bytes: int


class FileAccess(Protocol):
    """The files that an agent may touch. Relative paths start in the workspace.

    Every method raises FenceError, with a text for the model, where the agent has no access or the file is not there.
    """

    workspace: Path

    @property
    def rule_file_paths(self) -> tuple[Path, ...]:
        """Paths of the rule files, which an agent never writes directly."""

    def read(self, path: str, limit_bytes: int | None = None) -> bytes:
        """Read a regular file, at most its first ``limit_bytes``."""

    def write(self, path: str, data: bytes) -> None:
        """Replace the content of a file atomically; missing parent folders are created."""

    def append(self, path: str, data: bytes) -> None:
        """Append ``data``; a missing file is created."""

    def remove(self, path: str) -> None:
        """Remove a file, or a link but not its target. Folders are refused."""

    def stat(self, path: str) -> FolderEntry:
        """Return the entry at ``path``, with links followed."""

    def entries(self, path: str) -> tuple[FolderEntry, ...]:
        """List a folder, sorted by name; links are not followed."""

    def folder(self, path: str) -> Path:
        """Return the real path of a folder, as the working directory of a child process."""

    def display_path(self, path: str) -> str:
        """Format ``path`` for people: relative to the workspace when inside."""


class Sandbox(Protocol):
    """An isolated environment for commands: its name, and how to wrap a command line for it."""

    name: str

    async def probe(self) -> str:
        """Test it; return an empty text when it works here, else the reason."""

    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> list[str]:
        """Return the command line that runs ``argv`` inside the sandbox, with write access only below
        ``workspace``.
        """


THREADS = 8
"""Limit of plain functions of one package that run at once."""


Effects = Literal["none", "idempotent", "once"]
ResultWords = Literal["foreign", "own", "marked"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer of a tool (exported as ``claw.ToolResult``).

    :param content: text or blocks for the model; a plain string is one text block.
    :param details: for programs (events, ``--json``); never sent to a model. ``answers: True`` in it: the call wrote to
        the chat of this turn, so that the turn may end without a further text.
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
    :param run: called with validated arguments and a context; answers with str, dict or ToolResult.
    :param optional: an operator must name it (or its plugin) in an allow list.
    :param owner_only: hidden from senders who are not owners.
    :param effects: none and idempotent calls may run again after a crash; a ``once`` call with unknown
        outcome may not. A tool that declares nothing is ``once``.
    :param parallel: may run beside other calls of the same answer.
    :param timeout_seconds: None = no limit of its own.
    :param results: whose words its results may hold: ``foreign`` those of other people, ``own`` only its own and the
        agent's, ``marked`` notes with marks that say whose they are. Notes written after foreign words get a mark.
    :param leaves_running: the arguments with which a call leaves a program running behind its end, or writes to one that
        runs; ``*`` = every call does. Such a call is asked about before it begins if it names a rule file, because claw
        can revert only what happens until its end.
    :param reads_files: it reads any file that the agent may read, from any line on: where a turn has such a tool, the
        whole of a result that is cut can be kept for it in a file.
    :param plugin: id of the plugin that registered it; set by the host, never by the plugin.
    :param close: awaited when claw stops, for a tool that keeps something running.
    :param without: name of another tool → the form of this tool for runs that do not have the other one.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[dict[str, Any], "ToolContext"], Awaitable[Any]]
    optional: bool = False
    owner_only: bool = False
    effects: Effects = "once"
    parallel: bool = True
    timeout_seconds: float | None = None
    results: ResultWords = "foreign"
    leaves_running: tuple[str, ...] = ("background",)
    reads_files: bool = False
    plugin: str = ""
    close: Callable[[], Awaitable[None]] | None = None
    without: Mapping[str, "Tool"] = field(default_factory=dict)

    def among(self, names: Container[str]) -> "Tool":
        """Return the form of this tool for a run that has the tools ``names``."""
        lacks = next((other for name, other in self.without.items() if name not in names), None)
        return replace(lacks, plugin=self.plugin) if lacks else self


class ApprovalCallback(Protocol):
    """The call with which a running tool requests a person's approval; see :class:`ToolContext`."""

    async def __call__(self, shown: str, title: str = "", binds: str = "") -> bool: ...


async def _no_person(shown: str, title: str = "", binds: str = "") -> bool:
    return False


@dataclass(frozen=True)
class ToolContext:
    """The context that the host gives a running tool. A parameter annotated with it is filled in and left out
    of the schema.

    :param owner: the person behind this turn is an owner; False when unknown.
    :param agent: the agent as configured (``claw.config.agents.Agent``): id, name, workspace, settings.
    :param files: the file access of this agent, limited to its folders.
    :param state_dir: the plugin's own folder under ``CLAW_HOME``.
    :param progress: report to the person how far a long call is.
    :param send: send a text to the conversation this turn came from; returns the message ids.
    :param talk: wider chat access, a :class:`claw_tool_sdk.ChatApi`: other chats that the settings name, files, edits,
        reactions. None = no plugin provides it; ``claw_tool_sdk.chat_of`` then returns one that can only ``send``.
    :param status: facts of the turn: model, context_tokens, used_tokens, session_key, zone, thinking, turn.
    :param environment: what a child process may see (already filtered).
    :param ask: request a person's approval of the whole text (``await context.ask(shown, title)``): True when
        they allow it, False when no person can be asked here, ToolError (worded for the model) when they deny it
        or do not answer in time. The wait counts towards ``timeout_seconds``. Ask before the first effect:
        until the answer a call counts as not begun, so a call that a restart cut off is repeated and finds
        its approval request again. Pass a digest of other data that the approval covers (a file's bytes) as
        ``binds``; it must then be the same.
    :param memory: the folder with the memory that this chat may see: the agent's own (``MEMORY.md``,
        ``memory/``) in a private chat of an owner, else one with the notes of this chat alone. None: no
        memory may be seen.
    :param model_call: ``model_call(request)`` returns a :class:`claw.ModelCall` of the models of this turn, billed to it,
        without its instructions, history and tools. None = there is no turn.
    :param wrap: in a sandboxed run, makes the command line that runs a command inside the sandbox; a tool
        that starts a process must use it. None: there is no sandbox.
    """

    call_id: str
    session_key: str
    agent: Any
    owner: bool
    files: FileAccess
    state_dir: Path
    progress: Callable[[str], None]
    send: Callable[[str, tuple[str, ...]], Awaitable[tuple[str, ...]]]
    status: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    wrap: Callable[[Sequence[str]], list[str]] | None = None
    ask: ApprovalCallback = _no_person
    talk: Any = None
    memory: Path | None = None
    model_call: Callable[[Any], Any] | None = None


class DaemonThreadPool:
    """A pool that runs at most ``width`` calls at once, in daemon threads that stay: a call that hangs does not block
    process exit. (A ``ThreadPoolExecutor`` is joined when the interpreter ends, so a hanging tool would block the
    terminal.)
    """

    def __init__(self, width: int, name: str) -> None:
        self._width, self._name, self._alive = width, name, 0
        self._queue = SimpleQueue[Callable[[], None]]()
        self._idle, self._guard = threading.Semaphore(0), threading.Lock()

    async def run(self, function: Callable[..., T], /, **values: Any) -> T:
        """Return the answer of ``function``, which sees the caller's context variables; what it raises is raised. It is
        not called if the caller is cancelled while it waits.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        answer: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            if answer.cancelled():
                return
            try:
                outcome: Any = context.run(function, **values), None
            except BaseException as why:  # noqa: BLE001  handed on as a value: a future cannot carry StopIteration
                outcome = None, why
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(_settle, answer, outcome)

        self._queue.put(work)
        with self._guard:
            if not self._idle.acquire(blocking=False) and self._alive < self._width:
                self._alive += 1
                threading.Thread(target=self._run_queue, daemon=True, name=self._name).start()
        value: T
        value, error = await answer
        if error is not None:
            raise error
        return value

    def _run_queue(self) -> None:
        while True:
            self._queue.get()()
            self._idle.release()


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


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
    results: ResultWords = ...,
    leaves_running: tuple[str, ...] = ...,
    reads_files: bool = ...,
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
    :param traits: ``optional``, ``owner_only``, ``effects``, ``parallel``, ``timeout_seconds``, ``results``,
        ``leaves_running``, ``reads_files``, ``close`` of :class:`Tool`.
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
            return await _threads(function.__module__.partition(".")[0]).run(function, **values)

        named = name or function.__name__
        about = description or args.first_paragraph(function) or named.replace("_", " ")
        return Tool(named, about, schema, run, **traits)

    return make if function is None else make(function)


def validate(tool: Tool, arguments: Any) -> tuple[dict[str, Any], str]:
    """Check a model's arguments against the tool's schema.

    :returns: the arguments, nulls for optional ones left out, and an empty text; or the problem, worded for
        the model.
    """
    try:
        kept, problem = args.check_arguments(tool.parameters, arguments)
    except Exception as error:  # noqa: BLE001  a plugin's schema: any error in it is the tool's
        return {}, attributed(tool, t("its parameters are not a valid JSON Schema: {error}", error=error))
    return kept, problem and t("Invalid arguments for {tool}:", tool=tool.name) + "\n" + problem


def fit_result(result: ToolResult, limit: int, suffix: str | None = None) -> ToolResult:
    """Cut the texts of a result to ``limit`` characters together; images stay.

    :param limit: :func:`claw.contracts.text.result_limit` of the model that will read it.
    :param suffix: ends a cut text; None = the number of omitted characters.
    """
    blocks = truncate_blocks(result.blocks, limit, suffix)
    return result if blocks == result.blocks else replace(result, content=blocks)


def attributed(tool: Tool, message: str) -> str:
    """Add the plugin of a tool to a message about it."""
    return t("{message} (plugin {plugin})", message=message, plugin=tool.plugin) if tool.plugin else message


@cache
def _threads(package: str) -> DaemonThreadPool:
    """Return the thread pool of a package, so that a plugin that blocks stops only itself."""
    return DaemonThreadPool(THREADS, f"tools of {package}")
