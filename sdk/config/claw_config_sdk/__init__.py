"""For authors of commands: the config file judged, described and changed, options that name a run, and locks between
processes.

A change is one key; comments stay, and the result is validated.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

__getattr__, __dir__ = lazy_names(__spec__)

add_translations(__name__)
