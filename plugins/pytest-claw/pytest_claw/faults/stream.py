"""Faults of the stream itself: its lines, its events, and its encoding."""

import json

from claw_testing import ServiceConnection, ServiceReply

from pytest_claw.faults.building_blocks import BIG, gzipped, half, middle
from pytest_claw.faults.record import ANSWER, KEY, add, fault

# --- lines and events


@fault(ANSWER)
async def an_end_mark_and_silence(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*line.events)
    await line.hang()


@fault(ANSWER)
async def two_end_marks(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*line.events, line.events[-1])


@fault(ANSWER)
async def events_behind_the_end(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(b"".join([*line.events, *line.events]))


@fault(ANSWER)
async def one_byte_at_a_time(line: ServiceConnection) -> None:
    await line.send_head()
    whole = b"".join(line.events)
    await line.send(*(whole[at : at + 1] for at in range(len(whole))))


@fault(ANSWER)
async def lines_that_end_in_returns(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*(event.replace(b"\r\n", b"\n").replace(b"\n", b"\r") for event in line.events))


@fault(ANSWER)
async def lines_that_end_in_both_and_are_cut_between(line: ServiceConnection) -> None:
    await line.send_head()
    whole = b"".join(line.events).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    await line.send(*(part for piece in whole.split(b"\r\n")[:-1] for part in (piece + b"\r", b"\n")))


@fault(ANSWER)
async def a_byte_order_mark(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(b"\xef\xbb\xbf", *line.events)


@fault(ANSWER)
async def data_without_a_colon(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(b"data {}\n\n", *line.events[:1], b"data\n\n", *line.events[1:])


@fault(ANSWER)
async def lines_of_nonsense(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*(part for event in line.events for part in (b"!! nonsense: 1\n", event)))


@fault(ANSWER)
async def an_event_of_an_unknown_kind(line: ServiceConnection) -> None:
    await line.send_head()
    surprise = b'event: surprise\ndata: {"type": "surprise", "object": "surprise"}\n\n'
    await line.send(*(part for event in line.events for part in (surprise, event)))


@fault(ANSWER)
async def a_comment_of_ten_megabytes(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(line.events[0], b": " + b"x" * (BIG // 2) + b"\n", *line.events[1:])


@fault("server")
async def a_line_without_end(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(b"data: ", *([b"x" * 65536] * (BIG // 65536)))
    await line.hang()


@fault("server")
async def an_event_that_is_not_json(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*half(line.events), b"data: }" + KEY.encode() + b"{\n\n")
    await line.hang()


@fault("server")
async def an_event_that_is_no_object(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*half(line.events), b"data: [42]\n\n")
    await line.hang()


@fault("server", calls=())
async def bytes_that_are_no_text(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*(event.replace("看".encode(), b"\xff\xfe") for event in line.events))


@fault("overloaded")
async def an_error_behind_some_words(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*half(line.events), _failed(line))
    await line.hang()


@fault("overloaded")
async def an_error_before_any_word(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(_failed(line))


@fault(ANSWER)
async def a_stream_of_another_content_type(line: ServiceConnection) -> None:
    await line.send_head(kind="text/plain; charset=utf-8")
    await line.send(*line.events)


@fault("server")
async def a_stream_that_says_it_is_json(line: ServiceConnection) -> None:
    await line.send_head(kind="application/json")
    await line.send(*line.events)


PAGE = b"<!DOCTYPE html><html><body>Welcome " + KEY.encode() + b"</body></html>"
SORRY = {"error": {"type": "overloaded_error", "message": f"Overloaded, {KEY}"}}
add("a web page", "bad_request", ServiceReply(body=PAGE, content_type="text/html"))
add(
    "a web page that says it is a stream",
    "truncated",
    ServiceReply(body=PAGE, content_type="text/event-stream"),
)
add("an error that says it is an answer", "overloaded", ServiceReply(body={"type": "error", **SORRY}))
add("an empty object", "truncated server", ServiceReply(body={}))
add("a list", "truncated server", ServiceReply(body=[]))


# --- encoding and packing


@fault("server network")
async def gzip_that_is_none(line: ServiceConnection) -> None:
    await line.send_head(content_encoding="gzip")
    await line.send(*line.events)


@fault("network truncated server")
async def gzip_that_breaks_off(line: ServiceConnection) -> None:
    await line.send_head(content_encoding="gzip")
    packed = gzipped(b"".join(line.events))
    await line.send(packed[: len(packed) // 2])


@fault("server")
async def a_gzip_bomb(line: ServiceConnection) -> None:
    await line.send_head(content_encoding="gzip")
    await line.send(gzipped(b"data: " + b" " * (BIG)))


@fault(ANSWER)
async def gzip_that_nobody_asked_for(line: ServiceConnection) -> None:
    await line.send_head(content_encoding="gzip")
    await line.send(gzipped(b"".join(line.events)))


@fault("network truncated")
async def a_body_shorter_than_it_said(line: ServiceConnection) -> None:
    whole = b"".join(line.events)
    await line.send_head(content_length=str(len(whole)))
    await line.send(whole[: middle(line.events)])


@fault("truncated")
async def a_body_longer_than_it_said(line: ServiceConnection) -> None:
    await line.send_head(content_length=str(middle(line.events)))
    await line.send(b"".join(line.events))
    await line.hang()


@fault("network")
async def chunks_without_a_size(line: ServiceConnection) -> None:
    await line.send_head(transfer_encoding="chunked")
    await line.send(b"nonsense\r\n", *line.events)
    await line.hang()


def _failed(line: ServiceConnection) -> bytes:
    return b"event: error\ndata: " + json.dumps({"type": "error", **SORRY}).encode() + b"\n\n"
