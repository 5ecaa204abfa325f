"""Turns on behalf of requests: each is begun once, however often its request is repeated."""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from claw import Address, Attachment, ClawError, Inbound, Inbox, PluginConfig, Sender, UsageError
from claw.runtime import QueueSettings
from claw_channel_sdk import FateInbox, MessageFate, WebRequest

from claw_http.agent_request import DEFAULT_MODEL, AgentRequest
from claw_http.call_options import CallOptions, CallOptionsTable
from claw_http.failures import (
    STOPPING,
    BadRequest,
    key_of_other_request,
    no_answer,
    no_such_response,
    not_accepted,
    queue_full,
    still_running,
    stopping,
)
from claw_http.lost_responses import LostResponsesTable
from claw_http.messages import Picture
from claw_http.pending_requests import PendingRequest, PendingRequests
from claw_http.repeats import (
    RETRY_SECONDS,
    LostResponses,
    RequestIds,
    RequestLine,
    may_wait_for,
    request_ids,
)
from claw_http.settings import CALLER, HttpSettings
from claw_http.short_sessions import KEPT_DAYS, ShortSessions

_log = logging.getLogger(__name__)
STATELESS = "once-"
"""The beginning of the name of a conversation that has one call."""
RESPONSES = "resp-"
"""The beginning of the name of a conversation of kept responses."""
ROOT_CHARS = 16
"""The digits of an id that all responses of a conversation share."""
_RESPONSE_ID = re.compile(r"resp_[0-9a-f]{32}")
_PLAIN = re.compile(r"[a-z0-9_-]{1,48}")


def conversation_of(user: str, fresh: str) -> str:
    """Return the name of a conversation: one for each ``user``, or a new one. A caller cannot name a session
    key of claw.

    A user that is not a plain word is replaced by a digest, so that nothing in it can be parsed as a part of
    a session key.
    """
    if not user:
        return f"{STATELESS}{fresh}"
    if _PLAIN.fullmatch(user):
        return f"user-{user}"
    return f"user.{hashlib.sha256(user.encode()).hexdigest()[:32]}"


def _place_end(agent: str) -> str:
    """Return the end of the name of a conversation of kept responses: a session is of one agent."""
    return f".{agent.lower() or DEFAULT_MODEL}"


class AgentCalls:
    """The calls of agents: a request joins the turn of the same request, or begins one.

    :param inbox: claw's inbox, while the channel runs.
    :param pictures: the images of a message until its turn ended, by message id.
    """

    def __init__(
        self,
        config: PluginConfig,
        settings: HttpSettings,
        waiting: PendingRequests,
        inbox: Callable[[], Inbox | None],
        pictures: dict[str, Sequence[Picture]],
    ) -> None:
        self._settings, self._waiting, self._inbox, self._pictures = settings, waiting, inbox, pictures
        queue: QueueSettings = settings.queue or config.settings.messages.queue
        self._most_waiting = queue.cap + 1  # one runs
        self._options = CallOptionsTable(config.database)
        self._sessions = ShortSessions(config.database, config.clock)
        self._lost, self._since_ms = LostResponses(), time.time() * 1000
        self._lost_table = LostResponsesTable(config.database, config.clock)

    @property
    def waiting(self) -> int:
        """The number of requests with a caller who waits."""
        return len(self._waiting)

    def take_over(self, before: "AgentCalls") -> None:
        """Recognise the repetitions of requests that came with the settings before."""
        self._lost, self._since_ms = before._lost, before._since_ms

    async def open(
        self, request: WebRequest, asked: AgentRequest, head: str, line: RequestLine
    ) -> PendingRequest:
        """Return the call of a request, with one more caller; :meth:`close` takes him away.

        :param head: the beginning of its message id.
        :raises BadRequest: it was not accepted, or has the key of another request.
        """
        self._lost.confirm(line.name)
        ids = request_ids(request, head)
        fresh = ids.message_id.removeprefix(head)
        if asked.previous:  # the ids of one conversation begin alike
            fresh = asked.previous.removeprefix(head)[:ROOT_CHARS] + fresh[:ROOT_CHARS]
            ids = replace(ids, message_id=head + fresh)
        if found := self._repeated(ids):
            return found
        if asked.previous:
            place = self._place_after(asked.previous, asked.agent)
        elif asked.kept:
            place = f"{RESPONSES}{fresh[:ROOT_CHARS]}{_place_end(asked.agent)}"
        else:
            place = conversation_of(asked.user, fresh[:ROOT_CHARS])
        return await self._submitted(ids, asked, Address("http", chat=place, thread=place))

    def _place_after(self, previous: str, agent: str) -> str:
        """Return the conversation that a response continues.

        :raises BadRequest: there is no such response, it was not kept, is of another agent, or is not the newest one.
        """
        if not _RESPONSE_ID.fullmatch(previous):
            raise no_such_response("there is no such response")
        newest = self._fate(f"{previous[:-ROOT_CHARS]}*")
        if newest is None or self._fate(f"{previous}:*") is None:
            raise no_such_response(f"there is no such response; responses are kept for {KEPT_DAYS} days")
        if not newest.chat.startswith(RESPONSES):
            raise no_such_response("the response was not kept (store: false, or its input had a history)")
        if not newest.chat.endswith(_place_end(agent)):
            raise no_such_response("the response is of another agent (model)")
        if newest.event_id.partition(":")[0] != previous:
            raise no_such_response("only the newest response of a conversation can be continued")
        return newest.chat

    def close(self, call: PendingRequest, delivered: bool, line: RequestLine) -> None:
        """Take a caller away.

        :param delivered: the end of the answer was sent to him; otherwise a retry of his SDK finds the turn.
        :param line: of his request.
        """
        if delivered:
            name = line.name or call.message_id  # which no other request confirms
            if self._lost.sent(call.event_id, name, time.monotonic(), line.arrived):
                self._lost_table.remove(call.event_id)
        else:
            self._note_lost(call.event_id)
        self._waiting.close(call)
        if self._waiting.get(call.message_id) is not call:
            self._pictures.pop(call.message_id, None)

    def _note_lost(self, event_id: str) -> None:
        self._lost.add(event_id, time.monotonic())
        self._lost_table.add(event_id)

    def load_lost(self) -> None:
        """Read which responses the processes before did not send."""
        now = time.monotonic()
        for event_id, age_seconds in self._lost_table.recent():
            self._lost.add(event_id, now - age_seconds)

    async def finished(self, call: PendingRequest) -> None:
        """Wait for the end of a call.

        :raises BadRequest: there is no answer.
        """
        try:
            await asyncio.wait_for(call.until_ended(), self._settings.answer_seconds)
        except TimeoutError:
            raise still_running(self._settings.answer_seconds) from None
        if call.failure:
            raise call.failure

    def _read_fate(self, call: PendingRequest) -> None:
        """Read the end of a call from the journal: nothing of it arrived here."""
        if fate := self._fate(f"{call.message_id}:*"):
            if fate.outcome:
                call.take_fate(fate)
            else:  # its turn goes on, in the next process
                call.failure = stopping()

    def end_earlier(self, call: PendingRequest) -> None:
        """End the older calls of a conversation that the turn of ``call`` answered too (``/queue collect``)."""
        for earlier in self._waiting.before(call):
            fate = self._fate(f"{earlier.message_id}:*")
            if fate and fate.outcome:
                earlier.end(no_answer("merged") if fate.outcome == "delivered" else None)

    def _fate(self, pattern: str) -> MessageFate | None:
        inbox: FateInbox | Inbox | None = self._inbox()
        read: Callable[[str], MessageFate | None] | None = getattr(inbox, "fate", None)
        return read(pattern) if read else None

    def _repeated(self, ids: RequestIds) -> PendingRequest | None:
        """Return the call of the same request; None when it is the first one.

        :raises BadRequest: another request had its key.
        """
        if not (ids.keyed or ids.is_retry):
            return None
        message_id = ids.message_id
        if ids.is_retry:
            running, now = self._waiting.running(ids.digest), time.monotonic()
            lost = self._lost.find(ids.digest, now, ids.read_seconds, ids.lost_seconds)
            message_id = running.message_id if running else lost
        call = self._waiting.get(message_id)
        if call is None:
            fate = self._fate(f"{message_id}:*") if message_id else self._cut_off(ids)
            if fate is None:
                return None
            call = self._call_of(fate)
        if call.event_id.rpartition(":")[2] != ids.digest:
            raise key_of_other_request()
        call.callers += 1
        return call

    def _cut_off(self, ids: RequestIds) -> MessageFate | None:
        """Return the fate of a request with the same bytes whose response the end of the process before cut off, or may
        have lost."""
        fate, since = self._fate(f"*:{ids.digest}"), self._since_ms / 1000
        if fate is None or not since - RETRY_SECONDS < fate.accepted_at_ms / 1000 < since:
            return None
        arrived, ended = fate.accepted_at_ms / 1000, (fate.ended_at_ms or 0) / 1000
        if not fate.outcome or ended >= since - ids.lost_seconds:
            return fate
        return fate if may_wait_for(ended, arrived, time.time(), ids.read_seconds) else None

    def _call_of(self, fate: MessageFate) -> PendingRequest:
        """Return a call without callers for a message in the journal: it waits for its turn, or is ended."""
        message_id = fate.event_id.rpartition(":")[0]
        address = Address("http", chat=fate.chat, thread=fate.chat)
        if not fate.outcome:
            call = self._opened(message_id, fate.event_id, address)
            call.began()
        else:
            call = PendingRequest(message_id, fate.event_id, address)
            call.began()
            call.take_fate(fate)
            call.end()
        call.callers = 0
        return call

    def _opened(self, message_id: str, event_id: str, address: Address) -> PendingRequest:
        call = self._waiting.open(message_id, event_id, address)
        call.read_fate = self._read_fate
        call.on_end.append(lambda: self._forget(call))
        return call

    async def _submitted(self, ids: RequestIds, asked: AgentRequest, address: Address) -> PendingRequest:
        """Submit the message; register the waiting request before an answer can arrive."""
        if (waiting := self._waiting.waiting_at(address)) >= self._most_waiting:
            raise queue_full(waiting)
        inbox, id = self._inbox(), ids.message_id
        files = tuple(
            Attachment(
                "image",
                f"image-{at}.{picture.mime.partition('/')[2]}",
                picture.mime,
                f"{id}:{at}",
                size_bytes=len(picture.data),
            )
            for at, picture in enumerate(asked.messages.pictures)
        )
        inbound = Inbound(
            address,
            asked.text,
            Sender(CALLER, name=CALLER),
            message_id=id,
            event_id=ids.event_id,
            sent_at=time.time(),
            mentions_us=True,
            attachments=files,
            agent=asked.agent,
            tool_choice=asked.tool_choice,
        )
        call = self._opened(id, ids.event_id, address)
        if asked.messages.pictures:
            self._pictures[id] = asked.messages.pictures
        try:
            self._record(call, asked)
            # Shielded: a caller that disconnects must not leave a message half submitted.
            submitting = asyncio.ensure_future(inbox.submit(inbound)) if inbox else None
            if submitting and await asyncio.shield(submitting):
                return call
        except UsageError as why:
            self._refuse(call, refused := BadRequest(400, str(why), param="tool_choice", code="unknown_tool"))
            raise refused from None
        except ClawError as refused:  # usually a full disk: nothing was begun
            _log.error("%s", refused)
        except asyncio.CancelledError:  # the caller left; whether it is accepted shows later
            self.close(call, False, RequestLine("", 0.0))
            raise
        self._refuse(call, not_accepted())
        raise not_accepted()

    def _record(self, call: PendingRequest, asked: AgentRequest) -> None:
        """Record the options of a turn, and that its session is deleted if nobody can continue it.

        In a named conversation every call has options: one that waits must not give its own to the one that runs.

        :raises ClawError: they cannot be written.
        """
        if not asked.user:
            self._sessions.keep(call.address.chat)
            if asked.messages.pictures:
                self._sessions.add_pictures(call.address.chat, asked.agent, call.message_id)
        is_stateless = call.address.chat.startswith(STATELESS)
        earlier = asked.messages.earlier if is_stateless else ()
        options = CallOptions(asked.messages.instructions, earlier, asked.max_tokens)
        if options != CallOptions() or not is_stateless:
            self._options.add(call.message_id, call.address.chat, options)

    def _forget(self, call: PendingRequest) -> None:
        """Delete what was recorded for a call that has ended, unless its turn goes on in the next process."""
        if call.failure is None or call.failure.code != STOPPING:
            if call.callers <= 0:
                self._note_lost(call.event_id)
            self._remove(call.message_id, call.address.chat)

    def _remove(self, message_id: str, place: str) -> None:
        try:
            self._options.remove(message_id)
            if place.startswith(STATELESS):
                self._sessions.end(place)
        except ClawError as refused:  # a full disk: the next start deletes them
            _log.warning("%s", refused)

    def forget_all_ended(self) -> None:
        """Delete what was recorded for calls that ended while no process ran, or were never accepted."""
        for message_id, place in self._options.calls():
            self.forget_ended(message_id, place)

    def forget_ended(self, message_id: str, place: str) -> None:
        """Delete what was recorded for a call, if its turn has ended or it was never accepted."""
        fate = self._fate(f"{message_id}:*")
        if fate is None or fate.outcome:
            self._remove(message_id, place)

    def ended_without_caller(self, message_id: str, place: str) -> None:
        """Note that the turn of a call of an earlier process has ended; delete what was recorded for it."""
        fate = self._fate(f"{message_id}:*")
        if fate and fate.outcome:
            self._note_lost(fate.event_id)
        self.forget_ended(message_id, place)

    def _refuse(self, call: PendingRequest, why: BadRequest) -> None:
        """End a call whose message was not accepted, also for callers that joined it."""
        call.end(why)
        self._waiting.close(call)
        self._pictures.pop(call.message_id, None)
