"""``claw doctor`` and ``claw status``."""
