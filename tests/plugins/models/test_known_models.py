"""The model that a person means by a part of its name."""

import pytest
from claw import UsageError
from claw_models.known_models import KnownModels


def test_a_model_is_found_by_its_last_part_when_that_is_its_own() -> None:
    models = KnownModels(("a/x", "b/x", "b/y", "fast"), ("a", "b"))
    assert [models.find(text) for text in ("Y", "FAST", "A/z", "b/y")] == ["b/y", "fast", "a/z", "b/y"]
    with pytest.raises(UsageError):
        models.find("x")


@pytest.mark.parametrize("text", ["a//x", "A/x/", "a/ x", "a//x@work"])
def test_a_name_with_a_blank_or_an_empty_part_is_found_only_where_the_settings_have_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no model\. Did you mean [aA]/x\? .* providers\.[aA]\.models"):
        KnownModels((), ("a",)).find(text)
    name = text.removesuffix("@work")
    assert KnownModels((name,), ("a",)).find(text) == text
