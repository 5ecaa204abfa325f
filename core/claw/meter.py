"""The meter: what every model call passes. It asks the caps before, and writes down afterwards what the call cost.

It stands round each provider that the house knows, so a summary, a memory flush and a probe pass it as an answer does.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from claw.caps import NANOS, Bill, Cap, Refusal, Weighed, free_in, heard_tokens, most_tokens
from claw.errors import BudgetError
from claw.growing import Growing
from claw.kit import BUILTIN, Brought, Kit, channel_key
from claw.message import Inbound
from claw.provider import Finished, ModelEvent, Provider, Request, TextDelta, ThinkingDelta
from claw.route import Route
from claw.spending import Book, Sum, current
from claw.transcript import Assistant, Usage
from claw.usage import Price
from claw.wall import name_of
from claw.words import say

if TYPE_CHECKING:
    from claw.config.budgets import Budget, LongPrice, ModelPrice
    from claw.config.settings import Settings

CLOCKS = frozenset({"clock", "cron", "heartbeat"})
"""Channels that are no people: their chat is the job."""

ANSWER_TOKENS = 8192
"""The longest answer under a cap, where nothing else limits it."""


def bill_of(inbound: Inbound, route: Route, kit: Kit, turn: str) -> Bill:
    """Who pays for the model calls of a turn."""
    address = inbound.address
    channel = kit.channels.get(channel_key(address.channel, address.account))
    key, job = route.session_key, ""
    if ":cron:" in key:
        job = key.partition(":cron:")[2].partition(":")[0]
    elif address.channel in CLOCKS:
        job = address.chat or address.channel
    return Bill(route.agent_id, key, "", turn, channel.plugin if channel else BUILTIN, job)


class Spending:
    """The caps and prices of one configuration, over the book of the house.

    :param prices: provider → model → price, as the file says; they stand in place of what a plugin knows.
    :param complain: told in words of a provider that fails when it is asked for a price.
    """

    def __init__(
        self,
        book: Book | None = None,
        caps: Sequence[Cap] = (),
        prices: Mapping[str, Mapping[str, Price]] | None = None,
        complain: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.book, self.caps = book or Book(), tuple(caps)
        self._prices, self._complain = prices or {}, complain
        self._known: dict[tuple[str, str], Price | None] = {}
        self._weighed = Growing(Weighed)
        self.book.indexed(self.caps)

    @classmethod
    def of(cls, settings: "Settings", book: Book, complain: Callable[[str], None]) -> "Spending":
        """As the file says."""
        prices = {
            name: {model: price_of(facts.price) for model, facts in section.models.items() if facts.price}
            for name, section in settings.providers.items()
        }
        return cls(book, caps_of(settings), prices, complain)

    def over(self, providers: Mapping[str, Brought[Provider]]) -> dict[str, Brought[Provider]]:
        """The providers, each behind a meter."""
        return {name: Brought(one.plugin, Meter(one.thing, self)) for name, one in providers.items()}

    def price(self, provider: Provider, model: str) -> Price | None:
        """What a model costs: by the file, else by its plugin; None when nobody knows."""
        key = provider.name, model
        if key not in self._known:
            written = self._prices.get(provider.name, {}).get(model)
            self._known[key] = written or self._asked(provider, "price", model, Price)
        return self._known[key]

    def begin(self, provider: Provider, request: Request) -> "_Call":
        """Ask the caps, where there are any.

        :raises BudgetError: one of them has no room.
        """
        bill = current()
        price = self.price(provider, request.model)
        model = f"{provider.name}/{request.model}"
        call = _Call(self.book, bill, model, request, price, partial(self._tokens, request))
        caps = [cap for cap in self.caps if cap.applies(bill)]
        if caps:
            longest = self._longest(provider, request)
            if not longest:
                call.request = replace(request, max_tokens=ANSWER_TOKENS)
                longest = self._longest(provider, call.request) or ANSWER_TOKENS
            call.reserve(caps, longest)
        return call

    def _tokens(self, request: Request) -> int:
        """At most so many are in a request; of its past only what came new is read."""
        tools = (part for one in request.tools for part in (one.name, one.description, str(one.parameters)))
        return self._weighed.of(request.messages).tokens + most_tokens((), request.system.whole, *tools)

    def _longest(self, provider: Provider, request: Request) -> int | None:
        longest: int | None = self._asked(provider, "answer_tokens", request, int)
        return longest or request.max_tokens

    def _asked(self, provider: Provider, talent: str, about: Any, kind: type[Any]) -> Any:
        """What a provider answers that may not have this talent; None also when it answers nonsense."""
        try:
            answer = getattr(provider, talent)(about) if hasattr(provider, talent) else None
        except Exception as why:  # noqa: BLE001 - a stranger's code
            self._complain(say("provider {name} failed: {why}", name=provider.name, why=name_of(why)))
            return None
        return answer if isinstance(answer, kind) else None


class Meter:
    """A provider whose calls are counted; all else is its own."""

    def __init__(self, provider: Provider, spending: Spending) -> None:
        self.name, self._provider, self._spending = provider.name, provider, spending

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """The provider's stream.

        :raises BudgetError: before anything is asked.
        """
        call = self._spending.begin(self._provider, request)
        stream: Any = None
        try:
            stream = self._provider.stream(call.request)
            async for event in stream:
                if isinstance(event, TextDelta | ThinkingDelta):
                    if isinstance(event.text, str):
                        call.heard += len(event.text)
                elif isinstance(event, Finished):
                    call.answer = event.message
                yield event
        finally:
            call.end()
            if close := getattr(stream, "aclose", None):
                await close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


@dataclass
class _Call:
    """One call, from the question whether it may be made to what it cost.

    :param tokens: how many the request has at most.
    :param key: of the row that sets the worst aside.
    :param heard: characters so far; ``answer`` the whole.
    """

    book: Book
    bill: Bill
    model: str
    request: Request
    price: Price | None
    tokens: Callable[[], int]
    key: tuple[int, int] | None = None
    heard: int = 0
    answer: Assistant | None = None

    def reserve(self, caps: Sequence[Cap], longest: int) -> None:
        prompt = self.tokens()
        worst = Usage(input=prompt, output=longest)
        nanos = self.price.worst(prompt, longest) if self.price else None
        held = self.book.reserve(caps, self.bill, self.model, worst, nanos)
        if isinstance(held, Refusal):
            raise refused(held, self.model, self.book.clock.now())
        self.key = held

    def end(self) -> None:
        """Write down what it cost: what its service said; else an estimate of what was heard; else nothing."""
        usage, state = self.answer.usage if self.answer else None, "said"
        if usage is None or not (usage.input or usage.output or usage.cache_read or usage.cache_write):
            if not self.answer and not self.heard:
                if self.key:
                    self.book.settle(self.key, Usage(), 0, state)
                return
            usage, state = Usage(self.tokens(), heard_tokens(self.heard, self.answer)), "guessed"
        nanos = self.price.nanos(usage) if self.price else None
        if self.key:
            self.book.settle(self.key, usage, nanos, state)
        else:
            self.book.note(self.bill, self.model, usage, nanos, state)


def refused(over: Refusal, model: str, now: float) -> BudgetError:
    """Why a call was not made, in words: what cap, how much is used, when it is free again, which setting."""
    cap, free = over.cap, _when(over.cap, now)
    excuse = say("I have used up what I may spend here. I may again {when}.", when=free)
    provider, _, name = model.partition("/")
    if cap.nanos is not None and over.wanted.nanos is None:
        return BudgetError(
            "the budget {name} is in dollars, and nobody knows the price of {model}",
            fix="Write it under providers.{provider}.models.{short}.price (input, output: dollars for a million "
            "tokens), or give budgets.{name} tokens in place of usd",
            excuse=excuse, skips=over.kind == "skip", name=cap.name, model=model, provider=provider, short=name,
        )  # fmt: skip
    total = (over.spent + over.wanted).nanos or 0
    parts = (over.spent.nanos, over.held.nanos, over.wanted.nanos, cap.nanos)
    if cap.nanos is not None and total > cap.nanos:
        spent, held, wanted, most = map(dollars, parts)
    else:
        spent, held = f"{over.spent.tokens:,}", f"{over.held.tokens:,}"
        wanted, most = map(_count, (over.wanted.tokens, cap.tokens))
    return BudgetError(
        "the budget {name} has no room for this call: {spent} of {most} {per} is used ({held} of it is set aside for "
        "calls that run now), and the call may cost {wanted}"
        if over.held.tokens
        else "the budget {name} has no room for this call: {spent} of {most} {per} is used, and the call may cost "
        "{wanted}",
        fix="Raise budgets.{name}, allow answers less (agents.defaults.maxTokens), or wait: it is free again {when}",
        excuse=excuse, skips=over.kind == "skip", name=cap.name, spent=spent, held=held, wanted=wanted, most=most,
        per=_per(cap), when=free,
    )  # fmt: skip


def _per(cap: Cap) -> str:
    if cap.per == "day":
        return say("a day")
    return say("in one conversation") if cap.per == "session" else say("for one message")


def caps_of(settings: "Settings") -> list[Cap]:
    """The caps of the file."""
    return [_cap(name, budget) for name, budget in settings.budgets.items()]


def _cap(name: str, budget: "Budget") -> Cap:
    nanos = None if budget.usd is None else round(budget.usd * NANOS)
    return Cap(
        name, nanos, budget.tokens, budget.per, budget.agent or "", budget.job or "", budget.session or ""
    )


def price_of(written: "ModelPrice | LongPrice") -> Price:
    """A price as it is written in the file."""
    over = getattr(written, "over", None)
    return Price(
        written.input, written.output, written.cache_read, written.cache_write,
        (over.tokens, price_of(over)) if over else None,
    )  # fmt: skip


def dollars(nanos: int | None) -> str:
    """``$1.25``; small sums with as many places as they need."""
    if nanos is None:
        return "$?"
    amount = nanos / NANOS
    places = 2 if not nanos or amount >= 1 else 4 if amount >= 0.001 else 6
    return f"${amount:,.{places}f}"


def cost_of(sums: Sequence[Sum]) -> str:
    """What calls cost, in words; with a note where some of them have no known price."""
    nanos, unpriced = sum(one.nanos for one in sums), sum(one.unpriced for one in sums)
    if not unpriced:
        return dollars(nanos)
    if not nanos:
        return say("no price known")
    return say("{cost} and {count:call|calls} without a known price", cost=dollars(nanos), count=unpriced)


def _count(tokens: int | None) -> str:
    return say("{count:token|tokens}", count=f"{tokens or 0:,}")


def _when(cap: Cap, now: float) -> str:
    seconds = free_in(cap, now)
    if seconds is None:
        return say("in a new conversation (/new)") if cap.per == "session" else say("with the next message")
    minutes = max(1, round(seconds / 60))
    return say("in {n} min", n=minutes) if minutes < 100 else say("in {n} h", n=round(minutes / 60))
