"""For authors of claw tools: a strict parser of shell command lines, the pip command for packages of a tool, accesses
beside the declared capabilities, and the share of each source in the tools of a plugin.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

__getattr__, __dir__ = lazy_names(__spec__)

add_translations(__name__)
