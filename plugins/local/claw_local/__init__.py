"""A small model on this machine for claw (opt-in)."""
