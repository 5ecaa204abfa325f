"""The usage meter: every model call passes it. It checks the budgets and records the cost.

It wraps each provider, so that a summary, a memory flush and a probe pass it as an answer does.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from claw import (
    Assistant,
    BudgetError,
    CallAccount,
    Finished,
    ModelEvent,
    Provider,
    Request,
    TextDelta,
    ThinkingDelta,
    Usage,
    current_account,
    t,
)
from claw_provider_sdk import IncrementalCache, Price

from claw_budgets.caps import (
    NANOS,
    Amount,
    BudgetRefusal,
    SpendingCap,
    TokenBound,
    estimated_answer_tokens,
    max_tokens_of,
    seconds_until_reset,
    start_of_day,
)
from claw_budgets.ledger import Statement, UsageLedger, UsageSum

_log = logging.getLogger(__name__)
ANSWER_TOKENS = 8192
"""The longest answer under a budget, where nothing else limits it."""


class UsageMeter:
    """The budgets and prices of one configuration, over the ledger.

    :param prices: provider → model → price, from the config file; they take precedence over a plugin's.
    """

    name = "budgets"
    position = 900.0

    def __init__(
        self,
        book: UsageLedger | None = None,
        caps: Sequence[SpendingCap] = (),
        prices: Mapping[str, Mapping[str, Price]] | None = None,
    ) -> None:
        self.book, self.caps = book or UsageLedger(), tuple(caps)
        self._prices = prices or {}
        self._price_cache: dict[tuple[str, str], Price | None] = {}
        self._token_cache = IncrementalCache(TokenBound)
        self.book.create_indexes(self.caps)

    @classmethod
    def of(cls, settings: Any, budgets: Mapping[str, Any], book: UsageLedger) -> "UsageMeter":
        """Return the budgets and prices of the config file."""
        prices = {
            name: {model: price_of(facts.price) for model, facts in section.models.items() if facts.price}
            for name, section in settings.providers.items()
        }
        return cls(book, caps_of(budgets), prices)

    def wrap(self, provider: Provider) -> Any:
        """Return the provider behind this meter."""
        return MeteredProvider(provider, self)

    def at_end(self, turn: str) -> Sequence[Statement]:
        """Return the rows of a turn's calls, to be written with its end."""
        return self.book.pop_turn_rows(turn)

    def turn_usage(self, turn: str) -> tuple[Usage | None, float | None]:
        """Return the tokens of a turn's calls and their cost in US dollars, for its last event."""
        usage, nanos = self.book.of_turn(turn)
        return usage, None if nanos is None else nanos / NANOS

    def describe_cost(self, account: CallAccount) -> str:
        """Describe the cost of a conversation, and of its agent today."""
        here = self.book.sums(session_key=account.session_key, conversation=account.conversation)
        today = self.book.sums(since=start_of_day(self.book.clock.now()).timestamp(), agent=account.agent)
        return t(
            "{here} in this conversation; {today} today, all conversations of {agent}",
            here=cost_of(here),
            today=cost_of(today),
            agent=account.agent,
        )

    def close(self) -> None:
        """Write the rows of turns that did not end here."""
        self.book.close()

    def price(self, provider: Provider, model: str) -> Price | None:
        """Return the price of a model: from the config file, else from its plugin; None when it is
        unknown."""
        key = provider.name, model
        if key not in self._price_cache:
            written = self._prices.get(provider.name, {}).get(model)
            self._price_cache[key] = written or self._ask(provider, "price", model, Price)
        return self._price_cache[key]

    def begin_call(self, provider: Provider, request: Request) -> "_Metered":
        """Begin a call, and reserve its highest cost where a budget applies.

        :raises BudgetError: one of the budgets is used up.
        """
        bill = current_account()
        price = self.price(provider, request.model)
        model = f"{provider.name}/{request.model}"
        call = _Metered(self.book, bill, model, request, price, partial(self._tokens, request))
        caps = [cap for cap in self.caps if cap.applies(bill)]
        if caps:
            longest = self._longest(provider, request)
            if not longest:
                call.request = replace(request, max_tokens=ANSWER_TOKENS)
                longest = self._longest(provider, call.request) or ANSWER_TOKENS
            call.reserve(caps, longest)
        return call

    def _tokens(self, request: Request) -> int:
        """Return the most tokens that a request can have; of its history only what is new is read."""
        tools = (part for one in request.tools for part in (one.name, one.description, str(one.parameters)))
        return self._token_cache.get(request.messages).tokens + max_tokens_of(
            (), request.system.whole, *tools
        )

    def _longest(self, provider: Provider, request: Request) -> int | None:
        longest: int | None = self._ask(provider, "answer_tokens", request, int)
        return longest or request.max_tokens

    def _ask(self, provider: Provider, method: str, about: Any, kind: type[Any]) -> Any:
        """Call an optional method of a provider; return None when it is missing, fails or is wrong."""
        try:
            answer = getattr(provider, method)(about) if hasattr(provider, method) else None
        except Exception as why:  # noqa: BLE001 - plugin code
            _log.warning(
                t("provider {name} failed: {why}", name=provider.name, why=f"{type(why).__name__}: {why}")
            )
            return None
        return answer if isinstance(answer, kind) else None


class MeteredProvider:
    """A provider whose calls are metered; everything else is delegated."""

    def __init__(self, provider: Provider, spending: UsageMeter) -> None:
        self.name, self._provider, self._spending = provider.name, provider, spending

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the provider.

        :raises BudgetError: before the provider is called.
        """
        call = self._spending.begin_call(self._provider, request)
        stream: Any = None
        try:
            stream = self._provider.stream(call.request)
            async for event in stream:
                if isinstance(event, TextDelta | ThinkingDelta):
                    if isinstance(event.text, str):
                        call.received += len(event.text)
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
class _Metered:
    """One call, from its reservation to its recorded cost.

    :param tokens: returns the most that the request can have.
    :param key: of the ledger row that reserves the highest cost.
    :param received: characters received so far; ``answer`` the whole answer.
    """

    book: UsageLedger
    bill: CallAccount
    model: str
    request: Request
    price: Price | None
    tokens: Callable[[], int]
    key: tuple[int, int] | None = None
    received: int = 0
    answer: Assistant | None = None

    def reserve(self, caps: Sequence[SpendingCap], longest: int) -> None:
        prompt = self.tokens()
        worst = Usage(input=prompt, output=longest)
        nanos = self.price.worst_case(prompt, longest) if self.price else None
        held = self.book.reserve(caps, self.bill, self.model, worst, nanos)
        if isinstance(held, BudgetRefusal):
            raise budget_error(held, self.model, self.book.clock.now())
        self.key = held

    def end(self) -> None:
        """Record the cost: from the service's usage; else estimated from what was received; else nothing."""
        usage, state = self.answer.usage if self.answer else None, "said"
        if usage is None or not (usage.input or usage.output or usage.cache_read or usage.cache_write):
            if not self.answer and not self.received:
                if self.key:
                    self.book.settle(self.key, Usage(), 0, state)
                return
            usage, state = (
                Usage(self.tokens(), estimated_answer_tokens(self.received, self.answer)),
                "guessed",
            )
        nanos = self.price.nanos(usage) if self.price else None
        self.book.count(self.bill.turn, usage, nanos)
        if self.key:
            self.book.settle(self.key, usage, nanos, state)
        else:
            self.book.record(self.bill, self.model, usage, nanos, state)


def budget_error(over: BudgetRefusal, model: str, now: float) -> BudgetError:
    """Return the error of a refused call: the budget, its use, when it is free again, and the setting."""
    cap, free = over.cap, free_again(over.cap, now)
    excuse = t("The spending limit here is used up. I can answer again {when}.", when=free)
    provider, _, name = model.partition("/")
    if cap.nanos is not None and over.wanted.nanos is None:
        return unknown_price(cap.name, provider, name, excuse=excuse, skips=over.kind == "skip")
    total = (over.spent + over.wanted).nanos or 0
    parts = (over.spent.nanos, over.reserved.nanos, over.wanted.nanos, cap.nanos)
    if cap.nanos is not None and total > cap.nanos:
        spent, held, wanted, most = map(dollars, parts)
    else:
        spent, held = f"{over.spent.tokens:,}", f"{over.reserved.tokens:,}"
        wanted, most = map(_count, (over.wanted.tokens, cap.tokens))
    return BudgetError(
        "the budget {name} is too small for this call: {spent} of {most} {per} is used ({held} "
        "of it reserved for running calls), and the call may cost {wanted}"
        if over.reserved.tokens
        else "the budget {name} is too small for this call: {spent} of {most} {per} is used, and "
             "the call may cost {wanted}",
        fix="Raise budgets.{name}, lower agents.defaults.maxTokens, or wait: it resets {when}",
        excuse=excuse, skips=over.kind == "skip", name=cap.name, spent=spent, held=held, wanted=wanted, most=most,
        per=_period(cap), when=free,
    )  # fmt: skip


def unknown_price(cap: str, provider: str, model: str, **more: Any) -> BudgetError:
    """Return the error of a budget in dollars and a model without a known price.

    :param more: ``excuse`` and ``skips`` of the error.
    """
    return BudgetError(
        "the budget {name} is in dollars, but the price of {model} is unknown",
        fix="Set providers.{provider}.models.{short}.price (input, output: dollars per "
            "million tokens), or give budgets.{name} tokens instead of usd",
        name=cap, model=f"{provider}/{model}", provider=provider, short=model, **more,
    )  # fmt: skip


def _period(cap: SpendingCap) -> str:
    if cap.per == "day":
        return t("a day")
    return t("in one conversation") if cap.per == "session" else t("for one message")


def caps_of(budgets: Mapping[str, Any]) -> list[SpendingCap]:
    """Return the budgets of the config file."""
    return [_cap(name, budget) for name, budget in budgets.items()]


def _cap(name: str, budget: Any) -> SpendingCap:
    nanos = None if budget.usd is None else round(budget.usd * NANOS)
    return SpendingCap(
        name, nanos, budget.tokens, budget.per, budget.agent or "", budget.job or "", budget.session or ""
    )


def price_of(written: Any) -> Price:
    """Return the price of an entry in the config file."""
    over = getattr(written, "over", None)
    return Price(
        written.input, written.output, written.cache_read, written.cache_write,
        (over.tokens, price_of(over)) if over else None,
    )  # fmt: skip


def dollars(nanos: int | None) -> str:
    """Format as ``$1.25``; small sums with as many places as they need."""
    if nanos is None:
        return "$?"
    amount = nanos / NANOS
    places = 2 if not nanos or amount >= 1 else 4 if amount >= 0.001 else 6
    return f"${amount:,.{places}f}"


def cost_of(sums: Sequence[UsageSum]) -> str:
    """Format the cost of calls, with a note where some of them have no known price."""
    nanos, unpriced = sum(one.nanos for one in sums), sum(one.unpriced for one in sums)
    if not unpriced:
        return dollars(nanos)
    if not nanos:
        return t("no price known")
    return t("{cost} and {count:call|calls} without a known price", cost=dollars(nanos), count=unpriced)


def _count(tokens: int | None) -> str:
    return t("{count:token|tokens}", count=f"{tokens or 0:,}")


def describe_use(cap: SpendingCap, spent: Amount) -> str:
    """Describe what is spent under a cap, in money, tokens or both."""
    parts = []
    if cap.nanos is not None:
        percent = round(100 * (spent.nanos or 0) / cap.nanos)
        used, most = dollars(spent.nanos), dollars(cap.nanos)
        parts.append(t("{used} of {most} ({percent} %)", used=used, most=most, percent=percent))
    if cap.tokens is not None:
        used, most, percent = f"{spent.tokens:,}", f"{cap.tokens:,}", round(100 * spent.tokens / cap.tokens)
        parts.append(t("{used} of {most} tokens ({percent} %)", used=used, most=most, percent=percent))
    return ", ".join(parts)


def free_again(cap: SpendingCap, now: float) -> str:
    """Return when a cap starts from zero, for people."""
    seconds = seconds_until_reset(cap, now)
    if seconds is None:
        return t("in a new conversation (/new)") if cap.per == "session" else t("with the next message")
    minutes = max(1, round(seconds / 60))
    return t("in {n} min", n=minutes) if minutes < 100 else t("in {n} h", n=round(minutes / 60))
