"""Nine layers and the named gates round them: one ruling per tool, with the key that decided (pure).

``layers_for`` reads the file into nine plain values; ``judge`` folds them over the tools, and a layer only takes away.
``resolve`` is both, over every model that a turn may fall over to: a real turn, ``claw tools list`` and
``claw tools explain`` all ask it.
"""

from claw.policy.facts import Run, ToolFact, fact_of
from claw.policy.judge import judge, resolve
from claw.policy.layers import LAYERS, Layer, for_group, layers_for
from claw.policy.ruling import Judgement
from claw.policy.strays import strays

__all__ = [
    "LAYERS", "Judgement", "Layer", "Run", "ToolFact", "fact_of", "for_group", "judge", "layers_for", "resolve", "strays",
]  # fmt: skip
