"""The index of plugins: its format, ``claw plugins index`` and ``claw plugins search``."""
