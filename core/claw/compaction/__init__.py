"""How much of the past a model is shown, and how it is made shorter without parting a call from its result. Pure.

``cut`` finds where, ``split`` how much at once, ``budget`` when; ``digest`` and ``rendering`` say what is left of it
without a model, ``instructions`` what a model is told, ``summary`` asks one through a callable.
"""
