"""Work for a caller goes on as long as he stays."""

import asyncio

import pytest
from claw_http.app import attended


class Caller:
    """A client that sends its body, and leaves on request."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.said = [{"type": "http.request"}]

    async def __call__(self) -> dict[str, str]:
        if self.said:
            return self.said.pop()
        await self.leaves.wait()
        return {"type": "http.disconnect"}


async def test_a_caller_who_stays_gets_what_was_made_for_him():
    async def work() -> str:
        await asyncio.sleep(0)
        return "made"

    assert await attended(work(), Caller()) == "made"


async def test_work_for_a_caller_who_leaves_is_broken_off_in_order():
    caller, tidied = Caller(), []

    async def work() -> None:
        try:
            caller.leaves.set()
            await asyncio.sleep(60)
        finally:
            tidied.append(True)

    assert await attended(work(), caller) is None
    assert tidied == [True]
    await asyncio.sleep(0)  # nothing of the breaking off is left for the next step


async def test_an_error_of_the_work_comes_through():
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await attended(work(), Caller())


async def test_a_server_that_stops_is_no_caller_who_left():
    task = asyncio.ensure_future(attended(asyncio.sleep(60), Caller()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("ticks", range(6))
async def test_a_caller_who_leaves_just_when_the_work_is_done_disturbs_nothing(ticks):
    caller = Caller()

    async def work() -> str:
        for _ in range(ticks):
            await asyncio.sleep(0)
        return "made"

    asyncio.get_running_loop().call_soon(caller.leaves.set)
    assert await attended(work(), caller) in ("made", None)
    for _ in range(3):
        await asyncio.sleep(0)
