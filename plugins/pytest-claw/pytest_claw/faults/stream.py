"""Faults of the stream itself: its lines, its events, and how it is packed."""

import json

from claw.testing.services import Line, Reply

from pytest_claw.faults.making import BIG, gzipped, half, middle
from pytest_claw.faults.record import ANSWER, KEY, add, fault

# --- what the stream is made of


@fault(ANSWER)
async def an_end_mark_and_silence(line: Line) -> None:
    await line.head()
    await line.say(*line.events)
    await line.silence()


@fault(ANSWER)
async def two_end_marks(line: Line) -> None:
    await line.head()
    await line.say(*line.events, line.events[-1])


@fault(ANSWER)
async def events_behind_the_end(line: Line) -> None:
    await line.head()
    await line.say(b"".join([*line.events, *line.events]))


@fault(ANSWER)
async def one_byte_at_a_time(line: Line) -> None:
    await line.head()
    whole = b"".join(line.events)
    await line.say(*(whole[at : at + 1] for at in range(len(whole))))


@fault(ANSWER)
async def lines_that_end_in_returns(line: Line) -> None:
    await line.head()
    await line.say(*(event.replace(b"\r\n", b"\n").replace(b"\n", b"\r") for event in line.events))


@fault(ANSWER)
async def lines_that_end_in_both_and_are_cut_between(line: Line) -> None:
    await line.head()
    whole = b"".join(line.events).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    await line.say(*(part for piece in whole.split(b"\r\n")[:-1] for part in (piece + b"\r", b"\n")))


@fault(ANSWER)
async def a_byte_order_mark(line: Line) -> None:
    await line.head()
    await line.say(b"\xef\xbb\xbf", *line.events)


@fault(ANSWER)
async def data_without_a_colon(line: Line) -> None:
    await line.head()
    await line.say(b"data {}\n\n", *line.events[:1], b"data\n\n", *line.events[1:])


@fault(ANSWER)
async def lines_of_nonsense(line: Line) -> None:
    await line.head()
    await line.say(*(part for event in line.events for part in (b"!! nonsense: 1\n", event)))


@fault(ANSWER)
async def an_event_of_an_unknown_kind(line: Line) -> None:
    await line.head()
    surprise = b'event: surprise\ndata: {"type": "surprise", "object": "surprise"}\n\n'
    await line.say(*(part for event in line.events for part in (surprise, event)))


@fault(ANSWER)
async def a_comment_of_ten_megabytes(line: Line) -> None:
    await line.head()
    await line.say(line.events[0], b": " + b"x" * (BIG // 2) + b"\n", *line.events[1:])


@fault("server")
async def a_line_without_end(line: Line) -> None:
    await line.head()
    await line.say(b"data: ", *([b"x" * 65536] * (BIG // 65536)))
    await line.silence()


@fault("server")
async def an_event_that_is_not_json(line: Line) -> None:
    await line.head()
    await line.say(*half(line.events), b"data: }" + KEY.encode() + b"{\n\n")
    await line.silence()


@fault("server")
async def an_event_that_is_no_object(line: Line) -> None:
    await line.head()
    await line.say(*half(line.events), b"data: [42]\n\n")
    await line.silence()


@fault("server", calls=())
async def bytes_that_are_no_text(line: Line) -> None:
    await line.head()
    await line.say(*(event.replace("看".encode(), b"\xff\xfe") for event in line.events))


@fault("overloaded")
async def an_error_behind_some_words(line: Line) -> None:
    await line.head()
    await line.say(*half(line.events), _failed(line))
    await line.silence()


@fault("overloaded")
async def an_error_before_any_word(line: Line) -> None:
    await line.head()
    await line.say(_failed(line))


@fault(ANSWER)
async def a_stream_of_another_content_type(line: Line) -> None:
    await line.head(kind="text/plain; charset=utf-8")
    await line.say(*line.events)


@fault("server")
async def a_stream_that_says_it_is_json(line: Line) -> None:
    await line.head(kind="application/json")
    await line.say(*line.events)


PAGE = b"<!DOCTYPE html><html><body>Welcome " + KEY.encode() + b"</body></html>"
SORRY = {"error": {"type": "overloaded_error", "message": f"Overloaded, {KEY}"}}
add("a web page", "bad_request", Reply(body=PAGE, content_type="text/html"))
add("a web page that says it is a stream", "truncated", Reply(body=PAGE, content_type="text/event-stream"))
add("an error that says it is an answer", "overloaded", Reply(body={"type": "error", **SORRY}))
add("an empty object", "truncated server", Reply(body={}))
add("a list", "truncated server", Reply(body=[]))


# --- how it is packed


@fault("server network")
async def gzip_that_is_none(line: Line) -> None:
    await line.head(content_encoding="gzip")
    await line.say(*line.events)


@fault("network truncated server")
async def gzip_that_breaks_off(line: Line) -> None:
    await line.head(content_encoding="gzip")
    packed = gzipped(b"".join(line.events))
    await line.say(packed[: len(packed) // 2])


@fault("server")
async def a_gzip_bomb(line: Line) -> None:
    await line.head(content_encoding="gzip")
    await line.say(gzipped(b"data: " + b" " * (BIG)))


@fault(ANSWER)
async def gzip_that_nobody_asked_for(line: Line) -> None:
    await line.head(content_encoding="gzip")
    await line.say(gzipped(b"".join(line.events)))


@fault("network truncated")
async def a_body_shorter_than_it_said(line: Line) -> None:
    whole = b"".join(line.events)
    await line.head(content_length=str(len(whole)))
    await line.say(whole[: middle(line.events)])


@fault("truncated")
async def a_body_longer_than_it_said(line: Line) -> None:
    await line.head(content_length=str(middle(line.events)))
    await line.say(b"".join(line.events))
    await line.silence()


@fault("network")
async def chunks_without_a_size(line: Line) -> None:
    await line.head(transfer_encoding="chunked")
    await line.say(b"nonsense\r\n", *line.events)
    await line.silence()


def _failed(line: Line) -> bytes:
    return b"event: error\ndata: " + json.dumps({"type": "error", **SORRY}).encode() + b"\n\n"
