"""For authors of claw providers: streams, timeouts, classes of errors, schema dialects, facts of models.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

__getattr__, __dir__ = lazy_names(__spec__)

add_translations(__name__)
