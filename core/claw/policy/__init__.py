"""Nine layers and the named gates round them: one ruling per tool, with the key that decided (pure).

``layers_for`` reads the file into nine plain values; ``judge`` folds them over the tools, and a layer only takes away.
``resolve`` is both, over every model that a turn may fall over to: a real turn, ``claw tools list`` and
``claw tools explain`` all ask it.
"""

from claw.policy.facts import Run, ToolFact, fact_of
from claw.policy.judge import judge, judge_all, narrow, resolve
from claw.policy.layers import (
    LAYERS,
    Entry,
    Layer,
    Scope,
    Sections,
    build,
    for_group,
    layers_for,
    sections_for,
)
from claw.policy.reach import Reach
from claw.policy.ruling import Conflict, Judgement, Ruling
from claw.policy.strays import strays

__all__ = [
    "LAYERS",
    "Conflict",
    "Entry",
    "Judgement",
    "Layer",
    "Reach",
    "Ruling",
    "Run",
    "Scope",
    "Sections",
    "ToolFact",
    "build",
    "fact_of",
    "for_group",
    "judge",
    "judge_all",
    "layers_for",
    "narrow",
    "resolve",
    "sections_for",
    "strays",
]
