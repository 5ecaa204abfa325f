"""The models of a turn in core alone: the first model that has a key, and a provider's code that harms nothing."""

import pytest
from claw.agent.models import FirstModel
from claw.agent.providers import GuardedProvider
from claw.config.models import ModelsSettings
from claw.contracts.errors import ProviderError
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import Credential, ModelRef, Request, SystemPrompt
from claw.security.redaction import Redactor
from claw.testing import FakeProvider, says

BASE = Request("", SystemPrompt(""), ())
A, B = ModelRef("a", "m"), ModelRef("b", "n")


async def answer(models, providers, **options):
    shielded = {one.name: GuardedProvider(one, ModelsSettings(), Redactor([]), print) for one in providers}
    ask = FirstModel().select(models, shielded, BASE, ModelOptions(**options))
    return [event async for event in ask((), "auto")][-1].message


async def test_the_first_model_that_has_a_key_answers_with_its_first_key():
    keyless = FakeProvider(name="a", keys=[])
    keyed = FakeProvider(says("hi"), name="b", keys=[Credential("one", "1"), Credential("two", "2")])

    assert (await answer([A, B], [keyless, keyed])).model == "b/n"
    assert keyed.requests[0].request.credential.name == "one"


async def test_a_key_that_a_person_chose_is_used():
    model = FakeProvider(says("hi"), name="a", keys=[Credential("one", "1"), Credential("two", "2")])

    await answer([A], [model], keys={"a": "two"})

    assert model.requests[0].request.credential.name == "two"


async def test_a_failure_ends_the_call():
    busy, fallback = (
        ProviderError("too many requests", reason="rate_limit"),
        FakeProvider(says("hi"), name="b"),
    )

    with pytest.raises(ProviderError, match="too many requests"):
        await answer([A, B], [FakeProvider(busy, name="a"), fallback])
    assert fallback.requests == []


async def test_without_a_key_or_a_provider_the_error_says_what_to_do():
    with pytest.raises(ProviderError, match="add one with claw auth add a, or set A_KEY, or set"):
        await answer([A], [FakeProvider(name="a", keys=[])], key_variables={"a": ("A_KEY",)})
    with pytest.raises(ProviderError, match="there is no provider b"):
        await answer([B], [])


async def test_an_empty_answer_is_a_failure_where_it_must_not_be_empty():
    with pytest.raises(ProviderError, match="the model gave an empty answer"):
        await answer([A], [FakeProvider(says(""), name="a")], may_be_empty=lambda messages: False)


async def test_an_exception_of_a_provider_names_it():
    with pytest.raises(ProviderError, match="provider a failed: KeyError"):
        await answer([A], [FakeProvider(KeyError("choices"), name="a")])
