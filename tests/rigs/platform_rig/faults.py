"""Faults of lines and of responses, drawn from a seed or ordered one by one."""

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum

from aiohttp import web


class Fault(Enum):
    """One fault of a request."""

    NONE = "none"
    CUT_BEFORE = "cut before it is processed"
    CUT_AFTER = "cut after it was processed"
    E500 = "500"
    E502 = "502 with a page of a proxy"
    E401 = "401"
    E429 = "429"
    E404_PAGE = "404 with a page"


PAGE = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center><hr>nginx</body></html>"
STATUS = {Fault.E500: 500, Fault.E502: 502, Fault.E401: 401, Fault.E404_PAGE: 404}


_DRAWN = (Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.E500, Fault.E502, Fault.E401, Fault.E404_PAGE, Fault.E429)


@dataclass
class Rates:
    """Probability of each fault, for requests that send and for requests that ask for news."""

    cut_before: float = 0.0
    cut_after: float = 0.0
    e500: float = 0.0
    e502: float = 0.0
    e401: float = 0.0
    e404_page: float = 0.0
    e429: float = 0.0

    def draw(self, dice: random.Random) -> Fault:
        """Draw a fault, or none."""
        weights = (
            *(self.cut_before, self.cut_after, self.e500, self.e502, self.e401, self.e404_page, self.e429),
        )
        drawn = dice.random()
        for fault, weight in zip(_DRAWN, weights, strict=True):
            if drawn < weight:
                return fault
            drawn -= weight
        return Fault.NONE


SEND_RATES = Rates(cut_before=0.03, cut_after=0.03, e500=0.01, e502=0.01, e429=0.02)
NEWS_RATES = Rates(cut_before=0.02, cut_after=0.02, e500=0.02, e502=0.02, e401=0.005, e404_page=0.005)


@dataclass
class Faults:
    """The faults of one service.

    :ivar ordered: by name of a method, the faults of its next calls; they go before those that are drawn.
    :ivar happened: what was injected.
    """

    dice: random.Random
    send: Rates = field(default_factory=Rates)
    news: Rates = field(default_factory=Rates)
    ordered: dict[str, deque[Fault]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def order(self, method: str, *faults: Fault) -> None:
        """Order faults for the next calls of a method."""
        self.ordered.setdefault(method, deque()).extend(faults)

    def next(self, method: str, *, is_news: bool = False) -> Fault:
        """Return the fault of this call."""
        if waiting := self.ordered.get(method):
            fault = waiting.popleft()
        else:
            fault = (self.news if is_news else self.send).draw(self.dice)
        if fault is not Fault.NONE:
            self.happened[fault.value] += 1
        return fault

    def heal(self) -> None:
        """End all faults."""
        self.send, self.news = Rates(), Rates()
        self.ordered.clear()


def cut(request: web.Request) -> web.Response:
    """Close the connection of a request without a byte."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def page(fault: Fault) -> web.Response:
    """Return the HTML page of a proxy."""
    status = STATUS[fault]
    title = {404: "404 Not Found", 502: "502 Bad Gateway"}.get(status, str(status))
    return web.Response(status=status, text=PAGE.format(title), content_type="text/html")
