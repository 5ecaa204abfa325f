"""Faults of the connection, of the head of a response, and of a stream that breaks off or stalls."""

from claw_testing import ServiceConnection, ServiceReply

from pytest_claw.faults.building_blocks import TICKS, chunked, for_ever, half, long, middle, twisted, wordless
from pytest_claw.faults.record import KEY, add, fault

# --- the connection, and the head of the response

add("connection refused", "network", ServiceReply(), where="refused")
add("a service without TLS where TLS is wanted", "tls", ServiceReply(), where="plain")


@fault("network")
async def reset_before_the_head(line: ServiceConnection) -> None:
    line.reset()


@fault("network")
async def closed_before_the_head(line: ServiceConnection) -> None:
    line.half_close()


@fault("network")
async def half_a_head(line: ServiceConnection) -> None:
    await line.send(b"HTTP/1.1 200 OK\r\ncontent-ty")


@fault("network")
async def a_head_that_is_none(line: ServiceConnection) -> None:
    await line.send(b"220 mail.test " + KEY.encode() + b" ESMTP\r\n\r\n")


@fault("network timeout")
async def a_head_without_end(line: ServiceConnection) -> None:
    await line.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(TICKS):
        await line.send(b"x-%d: %b\r\n" % (number, b"y" * 1000))


@fault("timeout")
async def no_answer(line: ServiceConnection) -> None:
    await line.hang()


@fault("timeout")
async def half_a_head_and_silence(line: ServiceConnection) -> None:
    await line.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await line.hang()


@fault("timeout")
async def a_slow_head(line: ServiceConnection) -> None:
    await for_ever(line, [b"HTTP/1.1 200 OK\r\n", *([b"x"] * TICKS)])


@fault("timeout")
async def a_head_and_silence(line: ServiceConnection) -> None:
    await line.send_head()
    await line.hang()


@fault("network")
async def reset_behind_the_head(line: ServiceConnection) -> None:
    await line.send_head(content_length="1000")
    line.reset()


@fault("truncated")
async def closed_behind_the_head(line: ServiceConnection) -> None:
    await line.send_head()


add(
    "redirected",
    "network server bad_request",
    ServiceReply(status=302, headers={"location": "/elsewhere"}, body=b""),
)
add(
    "nothing where an answer should be", "truncated", ServiceReply(body=b"", content_type="text/event-stream")
)


# --- a stream that breaks off or stalls


@fault("network")
async def half_closed_in_the_middle(line: ServiceConnection) -> None:
    await chunked(line, half(line.events))
    line.half_close()


@fault("network")
async def reset_in_the_middle_of_an_event(line: ServiceConnection) -> None:
    await chunked(line, [b"".join(line.events)[: middle(line.events) + 9]])
    line.reset()


@fault("network", text="")
async def reset_in_the_arguments_of_a_call(line: ServiceConnection) -> None:
    whole = b"".join(line.events)
    await chunked(line, [whole[: whole.index("项".encode()) + 1]])
    line.reset()


@fault("network", calls=())
async def cut_in_the_middle_of_a_character(line: ServiceConnection) -> None:
    whole = b"".join(line.events)
    await chunked(line, [whole[: whole.index("看".encode()) + 1]])


@fault("truncated", calls=())
async def an_orderly_end_in_the_middle_of_a_character(line: ServiceConnection) -> None:
    whole = b"".join(line.events)
    await chunked(line, [whole[: whole.index("看".encode()) + 1], b""])


@fault("truncated")
async def an_orderly_end_in_the_middle(line: ServiceConnection) -> None:
    await chunked(line, [*half(line.events), b""])


@fault("truncated answer")
async def no_end_mark(line: ServiceConnection) -> None:
    await chunked(line, [*line.events[:-1], b""])


@fault("timeout")
async def silence_in_the_middle(line: ServiceConnection) -> None:
    await chunked(line, half(line.events))
    await line.hang()


@fault("timeout", text="")
async def silence_in_the_arguments_of_a_call(line: ServiceConnection) -> None:
    whole = b"".join(line.events)
    await chunked(line, [whole[: whole.index("项".encode()) + 1]])
    await line.hang()


@fault("timeout")
async def comments_for_ever(line: ServiceConnection) -> None:
    await line.send_head()
    await for_ever(line, [b": still working\n\n"] * TICKS)


@fault("timeout")
async def comments_for_ever_in_the_middle(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*half(line.events))
    await for_ever(line, [b": still working\n\n"] * TICKS)


@fault("timeout")
async def pings_for_ever(line: ServiceConnection) -> None:
    await line.send_head()
    await for_ever(line, [b'event: ping\ndata: {"type": "ping"}\n\n'] * TICKS)


@fault("timeout")
async def empty_lines_for_ever(line: ServiceConnection) -> None:
    await line.send_head()
    await for_ever(line, [b"\r\n"] * TICKS)


@fault("timeout", calls=())
async def its_first_event_for_ever(line: ServiceConnection) -> None:
    await line.send_head()
    await for_ever(line, [*twisted(line.events[:1], wordless)] * TICKS)


@fault("timeout", calls=())
async def events_without_words_for_ever(line: ServiceConnection) -> None:
    await line.send_head()
    await for_ever(line, [*twisted(half(line.events), wordless)] * TICKS)


@fault("timeout")
async def one_byte_now_and_then(line: ServiceConnection) -> None:
    await line.send_head()
    whole = b"".join(line.events)
    await for_ever(line, [whole[at : at + 1] for at in range(len(whole))])


@fault("timeout server", calls=())
async def words_without_end(line: ServiceConnection) -> None:
    await line.send_head()
    more = [*twisted(half(line.events), lambda data: {**data, **long(data)})]
    await line.send(*more[:-1])
    for _ in range(TICKS):
        await line.send(more[-1])
