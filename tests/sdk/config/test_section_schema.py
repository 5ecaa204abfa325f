"""The schema of a section of the config file: keys as written, with what each setting means."""

from claw import Section
from claw_config_sdk import section_schema
from pydantic import Field


class Part(Section):
    """A part of it."""

    size: int = 1
    """Of the part."""


class Base(Section):
    """Fields of several sections."""

    seen_by: str = ""
    """Seen by them,
    in two lines."""
    changed: int = 0
    """As the base says."""


class Own(Base):
    """A section."""

    changed: int = 1
    """As the section says."""
    parts: dict[str, Part] = Field({})
    """By name."""
    one: Part | None = None
    """The only one."""
    old: str = Field("", description="As an argument.")
    """Not this."""
    silent: str = ""


def test_a_docstring_below_a_field_says_what_the_setting_means():
    properties = section_schema(Own)["properties"]
    meanings = {key: one.get("description") for key, one in properties.items()}
    assert meanings == {
        "seenBy": "Seen by them, in two lines.",
        "changed": "As the section says.",
        "parts": "By name.",
        "one": "The only one.",
        "old": "As an argument.",
        "silent": None,
    }


def test_the_sections_below_it_are_described_too():
    assert section_schema(Own)["$defs"]["Part"]["properties"]["size"]["description"] == "Of the part."


def test_a_section_without_source_has_its_keys():
    made = type("Made", (Section,), {"__annotations__": {"key_name": str}, "__module__": "nowhere"})
    assert list(section_schema(made)["properties"]) == ["keyName"]
