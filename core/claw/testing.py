"""The fakes we ship for tests: a provider, tools, a channel, and all of claw around them (from ``claw-testing``)."""

from claw_testing import *  # noqa: F403
from claw_testing import __all__  # noqa: F401
