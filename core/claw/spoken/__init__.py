"""Calls of tools as words: for models that have no other way, and for those that fall back into it."""
