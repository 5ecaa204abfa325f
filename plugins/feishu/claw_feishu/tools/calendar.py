"""Tools for calendars. Facts: open.feishu.cn, "Calendar": times are Unix seconds as text; an app has a
calendar of its own, and people see an event there once they are invited."""

from datetime import date, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claw import Tool, ToolContext, ToolError, tool

from claw_feishu.tools.sdk import READS, WRITES, Sdk, id_in, needed, once_token


class CalendarTools:
    """The tools for calendars."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    def tools(self) -> tuple[Tool, ...]:
        """Return the read tool and the write tool."""
        reads, writes = (
            tool(name="feishu_calendar_read", **READS),
            tool(name="feishu_calendar_write", **WRITES),
        )
        return reads(self.read), writes(self.write)

    async def read(
        self,
        action: Literal["calendars", "events", "freebusy"],
        context: ToolContext,
        calendar: str = "",
        start: str = "",
        end: str = "",
        person: str = "",
        page_token: str = "",
        account: str = "",
    ) -> dict[str, Any]:
        """Look into Feishu calendars: which there are, the events of one, or when a person is busy.

        :param calendar: its id; empty = the app's own.
        :param start: beginning of the time asked for, ISO 8601; without an offset in the agent's time zone.
        :param end: its end.
        :param person: open id (ou_…); for freebusy.
        :param page_token: of the page before this one.
        :param account: account of the app, when there are several.
        """
        if action == "calendars":
            return await self._sdk.ask(context, account, _calendars(page_token))
        if action == "freebusy":
            needed(action, person=person, start=start, end=end)
            span = (when(one, context).isoformat() for one in (start, end))
            return await self._sdk.ask(context, account, _freebusy(person, *span))
        calendar = id_in(calendar) or await _own(self._sdk, context, account)
        span = (_seconds(one, context) if one else "" for one in (start, end))
        return await self._sdk.ask(context, account, _events(calendar, *span, page_token))

    async def write(
        self,
        action: Literal["create", "update", "delete", "invite"],
        context: ToolContext,
        *,
        calendar: str = "",
        event: str = "",
        summary: str = "",
        description: str = "",
        start: str = "",
        end: str = "",
        people: list[str] | None = None,
        account: str = "",
    ) -> dict[str, Any]:
        """Make, change or delete an event in a Feishu calendar, or invite people to one.

        :param calendar: its id; empty = the app's own, whose events people see once they are invited.
        :param event: id of the event; for everything but create.
        :param summary: its title.
        :param start: ISO 8601; without an offset in the agent's time zone; a date alone = the whole day.
        :param end: likewise.
        :param people: open ids (ou_…) to invite.
        :param account: account of the app, when there are several.
        """
        calendar = id_in(calendar) or await _own(self._sdk, context, account)
        event = id_in(event)
        words = {"summary": summary, "description": description}
        body: dict[str, Any] = {name: text for name, text in words.items() if text}
        times = {"start_time": start, "end_time": end}
        body |= {name: moment(text, context) for name, text in times.items() if text}
        if action == "create":
            needed(action, summary=summary, start=start, end=end)
            made = (await self._sdk.ask(context, account, _create(calendar, body, once_token(context))))[
                "event"
            ]
            if people:
                made = {
                    **made,
                    "invited": await _invite(self._sdk, context, account, calendar, made["event_id"], people),
                }
            return dict(made)
        needed(action, event=event)
        if action == "delete":
            await self._sdk.ask(context, account, _delete(calendar, event))
            return {"deleted": event}
        if action == "invite":
            needed(action, people=people)
            return {"invited": await _invite(self._sdk, context, account, calendar, event, people or [])}
        if not body:
            raise ToolError(
                "action {action} needs {names}", action=action, names="summary, description, start or end"
            )
        return dict((await self._sdk.ask(context, account, _update(calendar, event, body)))["event"])


def when(text: str, context: ToolContext) -> datetime:
    """Parse a time, with its offset.

    :raises ToolError: the text is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError("{text} is no time; write it as 2026-06-15T14:00", text=text) from None
    return found if found.tzinfo else found.replace(tzinfo=_zone(context))


def moment(text: str, context: ToolContext) -> dict[str, str]:
    """Return a time in the event's form: a date for the whole day, else a timestamp and the zone."""
    try:
        return {"date": date.fromisoformat(text).isoformat()}
    except ValueError:
        zone = {"timezone": str(_zone(context))}
        return {"timestamp": _seconds(text, context), **zone}


def _zone(context: ToolContext) -> ZoneInfo:
    try:
        return ZoneInfo(str(context.status.get("zone") or "UTC"))
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _seconds(text: str, context: ToolContext) -> str:
    return str(int(when(text, context).timestamp()))


async def _own(sdk: Sdk, context: ToolContext, account: str) -> str:
    """Return the id of the app's own calendar."""

    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import PrimaryCalendarRequest

        return client.calendar.v4.calendar.primary(PrimaryCalendarRequest.builder().build(), option)

    found = (await sdk.ask(context, account, call)).get("calendars") or []
    if not found:
        raise ToolError("the app has no calendar of its own; name one: calendar")
    return str(found[0]["calendar"]["calendar_id"])


async def _invite(
    sdk: Sdk, context: ToolContext, account: str, calendar: str, event: str, people: list[str]
) -> list[str]:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import (
            CreateCalendarEventAttendeeRequest,
            CreateCalendarEventAttendeeRequestBody,
        )

        each = [{"type": "user", "user_id": open_id} for open_id in people]
        body = CreateCalendarEventAttendeeRequestBody({"attendees": each, "need_notification": True})
        request = CreateCalendarEventAttendeeRequest.builder().calendar_id(calendar).event_id(event)
        request = request.user_id_type("open_id").request_body(body).build()
        return client.calendar.v4.calendar_event_attendee.create(request, option)

    done = await sdk.ask(context, account, call)
    return [str(one["user_id"]) for one in done.get("attendees") or ()]


def _calendars(page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import ListCalendarRequest

        request = ListCalendarRequest.builder().page_size(50)
        if page_token:
            request.page_token(page_token)
        return client.calendar.v4.calendar.list(request.build(), option)

    return call


def _events(calendar: str, start: str, end: str, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import ListCalendarEventRequest

        request = ListCalendarEventRequest.builder().calendar_id(calendar).page_size(50)
        for fill, value in (
            (request.start_time, start),
            (request.end_time, end),
            (request.page_token, page_token),
        ):
            if value:
                fill(value)
        return client.calendar.v4.calendar_event.list(request.build(), option)

    return call


def _freebusy(person: str, start: str, end: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import ListFreebusyRequest, ListFreebusyRequestBody

        body = ListFreebusyRequestBody({"user_id": person, "time_min": start, "time_max": end})
        request = ListFreebusyRequest.builder().user_id_type("open_id").request_body(body).build()
        return client.calendar.v4.freebusy.list(request, option)

    return call


def _create(calendar: str, body: dict[str, Any], token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import CalendarEvent, CreateCalendarEventRequest

        request = CreateCalendarEventRequest.builder().calendar_id(calendar).idempotency_key(token)
        return client.calendar.v4.calendar_event.create(
            request.request_body(CalendarEvent(body)).build(), option
        )

    return call


def _update(calendar: str, event: str, body: dict[str, Any]) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import CalendarEvent, PatchCalendarEventRequest

        request = PatchCalendarEventRequest.builder().calendar_id(calendar).event_id(event)
        return client.calendar.v4.calendar_event.patch(
            request.request_body(CalendarEvent(body)).build(), option
        )

    return call


def _delete(calendar: str, event: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.calendar.v4 import DeleteCalendarEventRequest

        request = DeleteCalendarEventRequest.builder().calendar_id(calendar).event_id(event)
        return client.calendar.v4.calendar_event.delete(request.need_notification("true").build(), option)

    return call
