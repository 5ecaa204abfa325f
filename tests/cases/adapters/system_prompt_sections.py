"""Mode and parts → which headings the whole system prompt has, and in which order."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from claw.contracts.prompt import ContextFile, PromptFacts
from claw.contracts.provider import ToolSpec
from claw_memory.section import recall_section
from claw_prompt.facts import owner_hash
from claw_prompt.sections import standard_sections
from claw_skills import skills_section
from prompts import assemble

from cases.made.agents import agent_in

FUNCTIONS = (
    "claw.contracts.prompt:ordered_sections",
    "claw.contracts.prompt:join_sections",
    "claw_prompt.sections:standard_sections",
    "claw_skills:skills_section",
    "claw_memory.section:recall_section",
)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, wanted = case["input"], case["expect"]
    if given["skills"]:
        skill = tmp_path / "skills" / "weather" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: weather\ndescription: Tell the weather.\n---\n", encoding="utf-8")
    facts = PromptFacts(
        agent_in(tmp_path),
        given["mode"],
        tuple(ToolSpec(name, "", {}) for name in given["tools"]),
        tmp_path,
        channel=given["runtime_channel"],
        zone=given["timezone"] or "",
        owners=tuple(owner_hash(owner) for owner in given["owner"] or ()),
        context_files=tuple(ContextFile(name, "words") for name in given["context_files"]),
        extra=given["extra"] or "",
        docs="docs" if given["docs"] else "",
    )

    prompt, _ = assemble(
        (*standard_sections(), skills_section({}, None), recall_section(lambda agent: None)), facts
    )

    lines = prompt.whole.splitlines()
    headings = [found[1] for line in lines if (found := re.match(r"##? (.+)", line))]
    assert wanted["first_line_contains"] in lines[0]
    assert not set(wanted["present"]) - set(headings)
    assert not set(wanted["absent"]) & set(headings)
    for first, second in wanted["before"]:
        assert headings.index(first) < headings.index(second)
    assert (headings[-1] if headings else None) == wanted["last_section"]
    assert all(one != two for one, two in pairwise(headings))
