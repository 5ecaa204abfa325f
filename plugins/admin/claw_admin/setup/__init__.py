"""``claw init`` and ``claw completion``."""
