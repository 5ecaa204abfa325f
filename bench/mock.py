"""A model on loopback for the bench, in a process of its own so that its CPU is not counted as claw's.

The message has the script of the turn, so the service keeps no state: ``[[bench rounds=10 think=200]] go on,
7`` asks
for ten tools, one per request, each after 200 ms, and then says ``done`` and the 7. The address is the first
line on
stdout; for each line on stdin one line of JSON comes back: the calls since the last time.
"""

import asyncio
import json
import re
import sys
import time
from types import SimpleNamespace
from typing import Any

from claw_testing.protocols import chat
from claw_testing.services import OpenAIService, ReceivedRequest, ServiceReply

MARKER = re.compile(r"\[\[bench rounds=(\d+) think=(\d+)\]\] go on, (\d+)")


def answer(request: ReceivedRequest) -> ServiceReply:
    """Return another tool call until the rounds are done, then the final text."""
    messages = request.body["messages"]
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    asked = MARKER.findall(json.dumps(messages[last]["content"])) if last >= 0 else []
    rounds, think, number = map(int, asked[-1]) if asked else (0, 0, 0)
    done = sum(message["role"] == "tool" for message in messages[last + 1 :])
    offered = {tool["function"]["name"] for tool in request.body.get("tools", ())}
    if done < rounds and "read" in offered:
        # Another file each time, so that loop detection does not trigger.
        return ServiceReply(calls=[("read", {"file_path": f"f{done}.txt"})], delay_seconds=think / 1000)
    return ServiceReply(text=f"done, all of it: {number}", delay_seconds=think / 1000)


class Timed(OpenAIService):
    """Records the time of each call in this process, and the size of the request.

    Requests are not checked as tests check them: that would cost more than all that claw does for a turn.
    """

    _protocols = {  # noqa: RUF012 - as the service has it
        "/v1/chat/completions": SimpleNamespace(
            check=lambda *request: None, stream=chat.stream, whole=chat.whole
        )
    }

    def __init__(self) -> None:
        super().__init__(answer)
        self.calls: list[dict[str, Any]] = []

    async def _serve(self, request: ReceivedRequest, *streams: Any) -> bool:
        began = time.perf_counter()
        goes_on = await super()._serve(request, *streams)
        body = request.body
        self.requests.clear()  # thousands of long ones would make this process slow
        system = [
            message["content"] for message in body["messages"] if message["role"] in ("system", "developer")
        ]
        self.calls.append(
            {
                "seconds": time.perf_counter() - began,
                "bytes": int(request.headers["content-length"]),
                "system_bytes": len(json.dumps(system, ensure_ascii=False).encode()),
                "tools_bytes": len(json.dumps(body.get("tools", []), ensure_ascii=False).encode()),
                "tools": len(body.get("tools", [])),
                "messages": len(body["messages"]),
            }
        )
        return goes_on


async def main() -> None:
    async with Timed() as service:
        print(service.url, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(service.calls), flush=True)
            service.calls.clear()


asyncio.run(main())
