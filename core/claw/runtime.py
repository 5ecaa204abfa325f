"""Names for authors of services, middleware, model selectors, context engines and commands: those in ``runtime.pyi``.

The second public tier beside ``claw``: what a plugin needs that works on a running claw and its state. Nothing is
imported before it is asked for.
"""

from claw import lazy_names

__getattr__, __dir__ = lazy_names(__spec__)
