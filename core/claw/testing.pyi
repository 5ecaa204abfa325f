"""For type checkers: the names of claw_testing."""

from claw_testing import *  # noqa: F403
