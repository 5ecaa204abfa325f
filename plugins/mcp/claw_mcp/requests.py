"""Requests of a server to claw while one of its tools runs: questions to the person, model calls, folders.

Source: modelcontextprotocol.io, revision 2025-11-25, "Elicitation", "Sampling" and "Roots".
"""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from claw import (
    Assistant,
    ClawError,
    Finished,
    Image,
    Request,
    SystemPrompt,
    Text,
    ToolContext,
    ToolError,
    User,
    bill_to,
    current_account,
    t,
)

from claw_mcp.settings import ServerSettings

_MOST_TOKENS = 8192
_STALE_SECONDS = 30.0  # in which a server may still ask for a call that was cut off
_INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL_ERROR, _REFUSED = -32600, -32602, -32603, -1
"""Codes of errors: of JSON-RPC, and that of a person who refuses a model call ("Sampling", "Error Handling")."""


@dataclass(eq=False)
class ServerCall:
    """A call of a tool of a server, while it runs.

    :param limit: the time limit; it stands still while the server waits for claw.
    :param scope: the context variables of the call: the account of its model calls.
    :param notes: lines for the model about requests that were not granted.
    """

    context: ToolContext
    limit: asyncio.Timeout
    scope: contextvars.Context
    notes: list[str] = field(default_factory=list)
    model_calls: int = 0
    _waits: int = 0
    _left: float = 0.0
    _has_ended: bool = False
    _tasks: set["asyncio.Task[Any]"] = field(default_factory=set)

    async def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Await ``step`` as a part of the call: with its context, off its time limit, and not longer than it.

        :raises ToolError: the call ended first.
        """
        task = asyncio.get_running_loop().create_task(step, context=self.scope.copy())
        self._tasks.add(task)
        try:
            with self._paused():
                await asyncio.wait({task})
        finally:
            self._tasks.discard(task)
            task.cancel()
        if task.cancelled():
            raise ToolError("the call has ended")
        return task.result()

    def end(self) -> None:
        """Stop what still runs for the call."""
        self._has_ended = True
        for task in self._tasks:
            task.cancel()

    @contextlib.contextmanager
    def _paused(self) -> Any:
        clock = asyncio.get_running_loop().time
        if not self._waits and (until := self.limit.when()) is not None:
            self._left = until - clock()
            self.limit.reschedule(None)
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits and not self._has_ended:
                self.limit.reschedule(clock() + self._left)


_current: contextvars.ContextVar["ServerCall | None"] = contextvars.ContextVar("claw-mcp-call", default=None)


def outside_calls() -> contextvars.Context:
    """Return a context for work that belongs to no call."""
    context = contextvars.copy_context()
    context.run(_current.set, None)
    return context


class ServerRequests:
    """The requests of one server. Each belongs to the call that runs; with several, and none of them named by the
    transport, it is refused: another person would be asked.
    """

    def __init__(self, name: str, server: ServerSettings) -> None:
        self._name, self._server = name, server
        self._running: list[ServerCall] = []
        self._stale_until = 0.0

    @contextlib.asynccontextmanager
    async def during(self, context: ToolContext, seconds: float) -> AsyncIterator[ServerCall]:
        """Answer the requests of the server for this call, as long as the block runs.

        :param seconds: time limit of the call, without the waits of the server for claw.
        :raises TimeoutError: it took longer.
        """
        async with asyncio.timeout(seconds) as limit:
            call = ServerCall(context, limit, contextvars.copy_context())
            token = _current.set(call)
            self._running.append(call)
            try:
                yield call
            except asyncio.CancelledError:
                self._stale_until = asyncio.get_running_loop().time() + _STALE_SECONDS
                raise
            finally:
                self._running.remove(call)
                _current.reset(token)
                call.end()

    @property
    def callbacks(self) -> dict[str, Callable[..., Any]]:
        """The callbacks for ``mcp.Client``: a server is told of no capability that its settings do not allow."""
        callbacks: dict[str, Callable[..., Any]] = {"elicitation_callback": self._elicit}
        if self._server.sampling:
            callbacks["sampling_callback"] = self._sample
        if self._server.roots:
            callbacks["list_roots_callback"] = self._list_roots
        return callbacks

    async def _elicit(self, context: Any, asked: Any) -> Any:
        from mcp import types

        call = self._call()
        if call is None:
            return self._unattributed()
        shown, values, why = _question(asked)
        verdict: Literal["decline", "cancel"] = "decline"
        if not why:
            try:
                title = t("the MCP server {name} asks", name=self._name)
                allowed = await call.run(call.context.ask(shown, title))
            except ToolError as refused:
                why = refused.problem
            else:
                if allowed:
                    return types.ElicitResult(action="accept", content=values)
                verdict, why = "cancel", t("no one can be asked here")
        note = "the MCP server {name} asked: {question}. It was not answered: {why}"
        call.notes.append(t(note, name=self._name, question=" ".join(asked.message.split()), why=why))
        return types.ElicitResult(action=verdict, _meta={"reason": why})

    async def _sample(self, context: Any, asked: Any) -> Any:
        call = self._call()
        if call is None:
            return self._unattributed()
        try:
            return await self._sampled(call, asked)
        except _Refused as why:
            code, said = why.code, why.problem
        except ClawError as why:  # of the provider, the budget, or the person who was asked
            code, said = _INTERNAL_ERROR, why.problem
        note = "the MCP server {name} asked for a model call. It was not made: {why}"
        call.notes.append(t(note, name=self._name, why=said))
        return _error(code, said)

    async def _sampled(self, call: ServerCall, asked: Any) -> Any:
        """Make a model call for the server.

        :raises ClawError: it is refused, or failed.
        """
        from mcp import types

        most = self._server.sampling_calls
        if call.context.model_call is None:
            raise _Refused(_INVALID_REQUEST, "there is no turn")
        if call.model_calls >= most:
            raise _Refused(_REFUSED, "a call of a tool may make {count} model calls", count=most)
        messages = [_message(one) for one in asked.messages]
        system = SystemPrompt(asked.system_prompt or "")
        if asked.tools or None in messages:
            raise _Refused(_INVALID_PARAMS, "only texts and pictures are taken, and no tools")
        call.model_calls += 1
        if self._server.sampling == "ask":
            title = t("the MCP server {name} asks a model", name=self._name)
            if not await call.run(call.context.ask(_shown_messages(asked), title)):
                raise _Refused(_REFUSED, "no one can be asked here")
        request = Request("", system, (), max_tokens=min(asked.max_tokens, _MOST_TOKENS))
        answer = await call.run(_answer(call.context.model_call(request), messages))
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text=answer.text),
            model=answer.model,
            stop_reason="maxTokens" if answer.stop_reason in ("length", "max_tokens") else "endTurn",
        )

    async def _list_roots(self, context: Any) -> Any:
        from mcp import types

        call, roots = self._call(), []
        for word in self._server.roots:
            path = (call.context.files.workspace if call else None) if word == "workspace" else Path(word)
            if path:
                found = path.expanduser().resolve()
                roots.append(types.Root.model_validate({"uri": found.as_uri(), "name": found.name}))
        return types.ListRootsResult(roots=roots)

    def _call(self) -> ServerCall | None:
        current = _current.get()
        if current in self._running:
            return current
        is_stale = asyncio.get_running_loop().time() < self._stale_until
        return self._running[0] if len(self._running) == 1 and not is_stale else None

    def _unattributed(self) -> Any:
        said = "it cannot be told which call of a tool asks" if self._running else "no call of a tool runs"
        return _error(_INVALID_REQUEST, said)


class _Refused(ClawError):
    def __init__(self, code: int, problem: str, **values: Any) -> None:
        super().__init__(problem, **values)
        self.code = code


def _error(code: int, message: str) -> Any:
    from mcp import types

    return types.ErrorData(code=code, message=message)


def _question(asked: Any) -> tuple[str, dict[str, Any] | None, str]:
    """Return the text to allow, the values that are sent then, and why nobody can be asked; empty when one can."""
    if asked.mode == "url":
        if urlsplit(asked.url).scheme not in ("http", "https"):
            return "", None, t("it names an address that a browser cannot open")
        return f"{asked.message}\n\n{t('Address to open in a browser:')}\n{asked.url}", None, ""
    values, missing = form_values(asked.requested_schema)
    if missing:
        return "", None, t("its form has a field that cannot be filled in here: {field}", field=missing)
    lines = [f"{name}: {_text(value)}" for name, value in values.items()]
    sent = [t("Sent if you allow it:"), *lines] if lines else []
    return "\n".join([asked.message, *([""] if sent else []), *sent]), values, ""


def form_values(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the values of a form that a person need only confirm, and the first field that must be typed.

    A field has its default, the only choice that it offers, or, if it is a required one of yes and no, yes. An optional
    field without a default is left out.
    """
    values: dict[str, Any] = {}
    required = schema.get("required") or ()
    for name, about in (schema.get("properties") or {}).items():
        choices = about.get("enum") or [one.get("const") for one in about.get("oneOf") or ()]
        if about.get("default") is not None:
            values[name] = about["default"]
        elif name in required and len(choices) == 1:
            values[name] = choices[0]
        elif name in required and about.get("type") == "boolean":
            values[name] = True
        elif name in required:
            return {}, str(about.get("title") or name)
    return values, ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return t("yes") if value else t("no")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _message(one: Any) -> User | Assistant | None:
    """Convert a message of a server (``mcp.types.SamplingMessage``); None when it has a part that is not taken."""
    blocks: list[Any] = []
    for part in one.content_as_list:
        if part.type == "text":
            blocks.append(Text(part.text))
        elif part.type == "image" and one.role == "user":
            blocks.append(Image(part.data, part.mime_type))
        else:
            return None
    return User(tuple(blocks)) if one.role == "user" else Assistant(tuple(blocks))


def _shown_messages(asked: Any) -> str:
    lines = [asked.system_prompt] if asked.system_prompt else []
    for one in asked.messages:
        lines += [f"{one.role}: {getattr(part, 'text', f'[{part.type}]')}" for part in one.content_as_list]
    return "\n".join(lines)


async def _answer(call: Any, messages: list[Any]) -> Assistant:
    """Return the answer of a model call, which is billed as one of ``sampling``."""
    bill_to(replace(current_account(), purpose="sampling"))
    answer = None
    async for event in call(messages, "auto"):
        if isinstance(event, Finished):
            answer = event.message
    if answer is None:
        raise ToolError("the model gave no answer")
    return answer
