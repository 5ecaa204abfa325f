"""Approval of tool calls by a person, grants, rule files and provenance."""
