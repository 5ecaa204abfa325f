"""For authors of claw channels: splitting of texts, edit-in-place streams, HTTP routes.

Nothing is imported before it is asked for.
"""

from claw import add_translations, lazy_names

__getattr__, __dir__ = lazy_names(__spec__)

add_translations(__name__)
