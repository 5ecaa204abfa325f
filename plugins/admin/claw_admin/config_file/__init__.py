"""``claw config set``, ``unset`` and ``schema``."""
