"""``agents.skills`` in the config file."""

from typing import Any

from claw import Section
from pydantic import Field, model_validator


class SkillSettings(Section):
    """The skills that an agent has, and the folders they come from."""

    allow: tuple[str, ...] | None = Field(None, description="Names of skills; absent = all, empty = none.")
    extra_dirs: tuple[str, ...] = Field((), description="More folders to look for skills in.")
    entries: dict[str, dict[str, Any]] = Field({}, description="By skill name: enabled, env, apiKey.")
    max_in_prompt: int = Field(150, ge=0, description="How many skills the prompt lists.")
    max_prompt_chars: int = Field(18_000, ge=0, description="Characters of the prompt that skills may take.")

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"allow": value} if isinstance(value, list | tuple) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        section: dict[str, Any] = handler(schema)
        return {**section, "type": ["array", "object"], "items": {"type": "string"}}
