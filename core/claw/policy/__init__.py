"""Tool policy: nine layers, with named checks before and after them. One ruling per tool, with the key that decided.

Pure. ``layers_for`` reads the config into nine plain values; ``judge_tools`` applies them to the tools, and a layer can
only remove tools. ``resolve_tools`` does both for every model that a turn may fall back to; real turns, ``claw tools
list`` and ``claw tools explain`` all call it.
"""
