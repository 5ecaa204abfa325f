"""SKILL.md folders for claw agents."""
