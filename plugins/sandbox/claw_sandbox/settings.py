"""Settings of the sandbox: ``plugins.entries.sandbox.config``."""

from claw import Section
from pydantic import Field


class SandboxConfig(Section):
    """Limits of the commands in the sandbox."""

    network: bool = Field(False, description="Let commands in the sandbox use the network.")
