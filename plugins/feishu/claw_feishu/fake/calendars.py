"""Fake calendars."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall
from claw_feishu.fake.shapes import Repeats, Route, page, unfit

CALENDAR_GONE, EVENT_GONE, UNFIT = 191001, 193001, 190002
_TIME = {"date?": str, "timestamp?": str, "timezone?": str}
_EVENT = {"summary?": str, "description?": str}


class FakeCalendars:
    """The calendars visible to the app: only its own, until more are added.

    :ivar events: calendar id → event id → event; ``busy`` open id → times.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh, self._repeats = fresh, Repeats()
        self.own = "feishu.cn_own@group.calendar.feishu.cn"
        self.events: dict[str, dict[str, dict[str, Any]]] = {self.own: {}}
        self.busy: dict[str, list[dict[str, str]]] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        calendars = "/open-apis/calendar/v4/calendars"
        events = rf"{calendars}/([\w.@%-]+)/events"
        yield "GET", calendars, self._calendars
        yield "POST", f"{calendars}/primary", self._primary
        yield "GET", events, self._events
        yield "POST", events, self._make_event
        yield "PATCH", rf"{events}/(\w+)", self._change_event
        yield "DELETE", rf"{events}/(\w+)", self._drop_event
        yield "POST", rf"{events}/(\w+)/attendees", self._invite
        yield "POST", "/open-apis/calendar/v4/freebusy/list", self._freebusy

    def _calendars(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        listing = [{"calendar_id": id, "summary": "claw", "type": "primary"} for id in self.events]
        fault = unfit(call, query={"page_size?": int, "page_token?": str, "sync_token?": str})
        return fault or page(call, "calendar_list", listing, 50)

    def _primary(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        own = {"calendar": {"calendar_id": self.own, "type": "primary"}, "user_id": ""}
        return unfit(call, query={"user_id_type?": str}) or ok({"calendars": [own]})

    def _calendar(self, id: str) -> dict[str, dict[str, Any]] | FakeAnswer:
        known = self.events.get(id)
        return refusal(CALENDAR_GONE, "invalid calendar_id") if known is None else known

    def _events(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        query = {"page_size?": int, "start_time?": str, "end_time?": str, "page_token?": str}
        calendar = self._calendar(unquote(found[1]))
        if fault := unfit(call, query=query) or (calendar if isinstance(calendar, FakeAnswer) else None):
            return fault
        assert isinstance(calendar, dict)
        first, last = int(call.query.get("start_time", 0)), int(call.query.get("end_time", 1 << 62))
        here = [
            one for one in calendar.values() if first <= int(one["start_time"].get("timestamp", first)) < last
        ]
        return page(call, "items", here, 1000)

    def _make_event(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {**_EVENT, "start_time": _TIME, "end_time": _TIME}
        calendar = self._calendar(unquote(found[1]))
        fault = unfit(call, query={"idempotency_key?": str, "user_id_type?": str}, body=body)
        if fault := fault or (calendar if isinstance(calendar, FakeAnswer) else None):
            return fault
        assert isinstance(calendar, dict)
        if _backwards(call.body):
            return refusal(UNFIT, "invalid parameters in request: end_time is before start_time")

        def make() -> dict[str, Any]:
            id = self._fresh("event") + "_0"
            calendar[id] = {
                "event_id": id,
                "organizer_calendar_id": unquote(found[1]),
                "status": "confirmed",
                **call.body,
            }
            return {"event": calendar[id]}

        return self._repeats.answer(call.query.get("idempotency_key", ""), make)

    def _change_event(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {**_EVENT, "start_time?": _TIME, "end_time?": _TIME}
        event = self.events.get(unquote(found[1]), {}).get(found[2])
        if fault := unfit(call, body=body):
            return fault
        if event is None:
            return refusal(EVENT_GONE, "event not found", 404)
        if _backwards({**event, **call.body}):
            return refusal(UNFIT, "invalid parameters in request: end_time is before start_time")
        event.update(call.body)
        return ok({"event": event})

    def _drop_event(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, query={"need_notification?": ("true", "false")}):
            return fault
        gone = self.events.get(unquote(found[1]), {}).pop(found[2], None)
        return ok({}) if gone else refusal(EVENT_GONE, "event not found", 404)

    def _invite(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {"attendees": [{"type": ("user",), "user_id": str}], "need_notification?": bool}
        if fault := unfit(call, query={"user_id_type": ("open_id",)}, body=body):
            return fault
        event = self.events.get(unquote(found[1]), {}).get(found[2])
        if event is None:
            return refusal(EVENT_GONE, "event not found", 404)
        new = [
            {**one, "attendee_id": self._fresh("user_"), "rsvp_status": "needs_action"}
            for one in call.body["attendees"]
        ]
        event.setdefault("attendees", []).extend(new)
        return ok({"attendees": new})

    def _freebusy(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {"time_min": str, "time_max": str, "user_id": str}
        fault = unfit(call, query={"user_id_type": ("open_id",)}, body=body)
        return fault or ok({"freebusy_list": self.busy.get(call.body["user_id"], [])})


def _backwards(event: dict[str, Any]) -> bool:
    start, end = event["start_time"], event["end_time"]
    if "timestamp" in start and "timestamp" in end:
        return int(end["timestamp"]) < int(start["timestamp"])
    return ("date" in start) != ("date" in end) or end.get("date", "") < start.get("date", "")
