"""``claw policy`` and ``claw route``."""
