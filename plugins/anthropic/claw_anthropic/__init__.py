"""Anthropic models for claw."""
