"""Texts of people (words, names, titles, files, ids) → the input of the model: no line of the envelope can be forged.

``where`` says which text is looked at: the user message (none given), the system prompt, or a tool's result.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claw.contracts.messages import Address, Attachment, Inbound, MessageContext, QuotedMessage, Sender
from claw.contracts.prompt import PromptFacts
from claw.contracts.provider import ToolSpec
from claw.security.untrusted_text import (
    CLOSES,
    OPENS,
    group_context,
    inbound_context,
    trusted_facts,
    user_text,
    wrap_untrusted,
)
from claw_gateway.metadata import metadata_before
from claw_prompt.sections import standard_sections
from claw_skills import skills_section
from prompts import assemble

from cases.made.agents import agent_in

FUNCTIONS = (
    "claw_gateway.metadata:metadata_before",
    "claw.security.untrusted_text:user_text",
    "claw.security.untrusted_text:group_context",
    "claw.security.untrusted_text:wrap_untrusted",
    "claw.security.untrusted_text:inbound_context",
    "claw_skills:skills_section",
)

UNUSED = {"split": "the lines of every row are split as Unicode splits them, which finds more of them"}


def check(case: dict[str, Any], tmp_path: Path) -> None:
    fields = case["fields"]

    text = _seen(case.get("where", "user"), fields, tmp_path)

    allowed = case.get("genuine_max", {})
    for pattern in case["must_not_have_line"]:
        forged = [line for line in text.splitlines() if any(re.match(pattern, look) for look in _looks(line))]
        assert len(forged) <= allowed.get(pattern, 0), forged
    objects = list(_objects(text))
    assert not {key for one in objects for key in one} & set(case["json_must_not_have_key"])
    for raw in case.get("must_not_contain", ()):
        assert raw not in text
    for kept in case["must_keep"]:
        assert kept in text
    for inside in case.get("inside_wrapper", ()):
        assert text.index(OPENS) < text.index(inside) < text.rindex(CLOSES)
    if most := case.get("max_field_chars"):
        values = [value for one in objects for value in one.values() if isinstance(value, str)]
        assert values
        assert max(map(len, values)) <= most
        assert fields["sender"] not in text


def _seen(where: str, fields: dict[str, Any], tmp_path: Path) -> str:
    if where == "tool_result":
        return wrap_untrusted(fields["tool_result"])
    if where == "system_prompt":
        return _system_prompt(fields, tmp_path)
    inbound = _inbound(fields)
    return inbound_context(trusted_facts(inbound)) + "\n\n" + metadata_before(inbound) + user_text(inbound)


def _inbound(fields: dict[str, Any]) -> Inbound:
    quote = fields.get("quoted")
    return Inbound(
        Address("feishu", fields["chat_id"]),
        fields["text"],
        Sender(fields["sender_id"], fields["sender"]),
        message_id=fields["message_id"],
        chat_type="group",
        attachments=tuple(
            Attachment("file", one["name"], one.get("mime", "")) for one in fields.get("attachments", ())
        ),
        around=MessageContext(
            chat_name=fields["chat_title"],
            thread_name=fields.get("topic", ""),
            quoted=QuotedMessage(quote) if quote else None,
            forwarded_from=fields.get("forwarded_from", ""),
        ),
    )


def _system_prompt(fields: dict[str, Any], tmp_path: Path) -> str:
    if skill := fields.get("skill"):
        file = tmp_path / "skills" / skill["name"] / "SKILL.md"
        file.parent.mkdir(parents=True)
        front = f"name: {json.dumps(skill['name'])}\ndescription: {json.dumps(skill['description'])}"
        file.write_text(f"---\n{front}\n---\n", encoding="utf-8")
    inbound = _inbound(fields)
    facts = PromptFacts(
        agent_in(tmp_path),
        "full",
        (ToolSpec("read", "", {}),),
        tmp_path,
        channel="feishu",
        extra=group_context(inbound),
        inbound_meta=trusted_facts(inbound),
    )
    text = assemble((*standard_sections(), skills_section({}, None)), facts)[0].whole
    assert not skill or f"<name>{skill['name']}</name>" in text
    assert fields["chat_title"] in text
    return text


def _looks(line: str) -> tuple[str, str]:
    """The line as it is, and without format characters and compatibility forms."""
    folded = unicodedata.normalize("NFKC", line)
    return line, "".join(char for char in folded if unicodedata.category(char) != "Cf")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for start in (found.start() for found in re.finditer(r"\{", text)):
        try:
            one, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            continue
        yield one
