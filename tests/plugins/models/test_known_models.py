"""The model that a person means by a part of its name."""

import pytest
from claw import UsageError
from claw_models.known_models import KnownModels


def test_a_model_is_found_by_its_last_part_when_that_is_its_own() -> None:
    models = KnownModels(("a/x", "b/x", "b/y", "fast"), ("a", "b"))
    assert [models.find(text) for text in ("Y", "FAST", "A/z", "b/y")] == ["b/y", "fast", "a/z", "b/y"]
    with pytest.raises(UsageError):
        models.find("x")
