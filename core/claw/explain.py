"""Why a tool is there or not (pure): each gate and layer in order, the rule that decides, and what to change.

It looks at the judgement that a turn would get from ``policy.resolve``; what policy never saw, because no plugin brought
it, is explained from how the installed plugins stand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claw.catalog import CORE_TOOLS, normalise
from claw.config.names import dotted, nearest
from claw.mend import Edit, edits_for, hand_over
from claw.policy import Judgement, Layer, ToolFact
from claw.policy.judge import CLOSING, narrow, opt_in_words
from claw.policy.layers import sections_for
from claw.policy.ruling import STANDS, Conflict, Ruling
from claw.standing import BLOCKED, DISABLED, IDLE, INCOMPATIBLE, LOADED, Standing
from claw.words import say


@dataclass(frozen=True, slots=True)
class Step:
    """One gate or layer.

    :param stage: as in ``Ruling``.
    :param passes: the tool would pass here, whatever the others say.
    :param note: what decided, in the language in use; for a layer without a rule, that it has none.
    """

    stage: str
    passes: bool
    note: str
    key: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Explanation:
    """The whole answer about one tool.

    :param name: as registered; as asked when nobody brings it.
    :param plugin: who brings it, or would; empty when nobody does.
    :param stage: what took it away: a gate, a layer, or what kept it from policy (``unknown``, ``not-installed``,
        ``no-supplier``, ``not-brought``, or the state of its plugin); empty when it is available.
    :param why: the reason in the language in use, with the key.
    :param key: of the deciding rule; ``whose`` the id behind a list index in it, ``file`` and ``line`` its place.
    :param edits: what to change; all of them are needed. ``fix`` says what to do where no edit can help.
    :param steps: gates and layers in order; empty for what policy never saw.
    :param spare: the fallback model that is to blame.
    :param rivals: what else wanted this name, each with the edits that hand it over.
    """

    name: str
    available: bool
    plugin: str = ""
    core: bool = False
    stage: str = ""
    why: str = ""
    key: str = ""
    whose: str = ""
    file: str = ""
    line: int | None = None
    edits: tuple[Edit, ...] = ()
    fix: str = ""
    steps: tuple[Step, ...] = ()
    spare: str = ""
    tokens: int = 0
    rivals: tuple[tuple[str, tuple[Edit, ...]], ...] = ()


def explain(name: str, config: Any, judgement: Judgement, standings: Sequence[Standing] = ()) -> Explanation:
    """Say whether the tool ``name`` is available in the run of ``judgement``, and why not.

    :param config: the ``claw.config.Config`` that was judged.
    :param standings: how the installed plugins stand.
    """
    wanted = normalise(name)
    found = judgement.named.get(wanted, ())
    if not found:
        return _absent(name, wanted, config, judgement, standings)
    fact = found[0]
    ruling = STANDS if fact.name in judgement.standing else judgement.rulings[fact.name]
    deciding = _deciding(judgement, ruling)
    key = ruling.key
    place = f"{key}[{ruling.entry.at}]" if ruling.entry and key else key
    return Explanation(
        name=fact.name,
        available=ruling.allowed,
        plugin=fact.supplier,
        core=fact.plugin is None,
        stage=ruling.stage,
        why=ruling.reason,
        key=place,
        whose=ruling.whose,
        file=config.file if key else "",
        line=config.line(place) if key else None,
        edits=() if ruling.allowed else edits_for(fact, ruling, deciding, sections_for(config, deciding.run)),
        fix="" if ruling.allowed else _fix(ruling, fact, deciding),
        steps=_steps(fact, config, deciding),
        spare=ruling.spare,
        tokens=fact.tokens,
        rivals=tuple(
            _rival(lost) for lost in judgement.conflicts if lost.fact in found and lost.fact is not fact
        ),
    )


def _rival(conflict: Conflict) -> tuple[str, tuple[Edit, ...]]:
    fact = conflict.fact
    plugin = fact.plugin or fact.supplier
    text = say("plugin {id} brings a tool of this name too, and was passed over", id=plugin)
    return text, () if conflict.kind == "plugin-id" else hand_over(fact)


def _deciding(judgement: Judgement, ruling: Ruling) -> Judgement:
    """The judgement of the model that the ruling comes from."""
    for spare in judgement.spares:
        if ruling.spare == f"{spare.run.provider}/{spare.run.model}":
            return spare
    return judgement


def _fix(ruling: Ruling, fact: ToolFact, judged: Judgement) -> str:
    """What to do where no edit of the file can be named."""
    if ruling.stage == "owner-only" and not (judged.run.sender and judged.run.sender.id):
        return say("name the person with --sender to see the edit that makes them an owner")
    if ruling.stage == "channel-fit":
        return say("use it from another channel")
    if ruling.stage == "provider-schema":
        return say("use another model, or ask the plugin's author for a plainer schema")
    if ruling.stage == "subagent" and not ruling.key and normalise(fact.name) != "sessions_spawn":
        return say("let the agent that the person talks to use it")
    if ruling.stage == "name" and ruling.values.get("kind") == "plugin-id":
        return say("ask its author for another plugin id")
    return ""


def _steps(fact: ToolFact, config: Any, judged: Judgement) -> tuple[Step, ...]:
    """Each gate and layer, asked about this tool alone."""
    steps = [_optional(fact, config, judged), _name(fact, judged)]
    reach = judged.reach(fact)
    for layer in judged.layers:
        _, fell = narrow(frozenset((normalise(fact.name),)), layer, reach)
        steps.append(_step(layer.name, next(iter(fell.values()), None), _rule_of(layer), config))
    for stage, gate in CLOSING.items():
        steps.append(_step(stage, gate(fact, judged.run), "", config))
    return tuple(steps)


def _step(stage: str, ruling: Ruling | None, note: str, config: Any) -> Step:
    if ruling is None:
        return Step(stage, True, note)
    key = f"{ruling.key}[{ruling.entry.at}]" if ruling.entry and ruling.key else ruling.key
    return Step(stage, False, ruling.reason, key, config.line(key) if key else None)


def _rule_of(layer: Layer) -> str:
    """What a layer that lets the tool through goes by."""
    if layer.profile and layer.allow is not None:
        return say("the profile {profile} ({key}) holds it", profile=layer.profile, key=layer.key)
    if layer.allow is None and not layer.deny:
        return say("no rule")
    if layer.allow is None:
        return say("no rule names it")
    return say("{key} lets it through", key=layer.key or say("claw's own list"))


def _optional(fact: ToolFact, config: Any, judged: Judgement) -> Step:
    if not fact.optional:
        return Step("optional", True, say("it is not optional"))
    words = opt_in_words(fact)
    for layer in judged.layers:
        for entry in layer.opens:
            if entry.word in words:
                key = f"{entry.key}[{entry.at}]"
                note = say("{key} switches it on ({pattern})", key=entry.key, pattern=entry.word)
                return Step("optional", True, note, key, config.line(key))
    return Step("optional", False, say("no allow list that applies here names it or its plugin"))


def _name(fact: ToolFact, judged: Judgement) -> Step:
    lost = next((conflict for conflict in judged.conflicts if conflict.fact is fact), None)
    if lost is None:
        return Step("name", True, say("the name is its own"))
    return Step("name", False, judged.rulings[fact.name].reason if fact not in judged.loaded else "")


def _absent(
    name: str, wanted: str, config: Any, judgement: Judgement, standings: Sequence[Standing]
) -> Explanation:
    """Nobody brings the tool into this run: who would?"""
    supplier = CORE_TOOLS.get(wanted, "")
    handed = next((key for key in config.settings.tools.suppliers if normalise(key) == wanted), None)
    if handed is not None:
        supplier = config.settings.tools.suppliers[handed]
    bringing = [one for one in standings if wanted in map(normalise, _tools_of(one)) or one.id == supplier]
    if bringing:
        best = next((one for one in bringing if one.id == supplier), bringing[0])
        return replace(_set_aside(name, best, config), core=wanted in CORE_TOOLS)
    if handed is not None:
        key = dotted(("tools", "suppliers", handed))
        return Explanation(
            name, False, supplier, wanted in CORE_TOOLS, "not-installed",
            say("{key} hands it to the plugin {id}, which is not installed", key=key, id=supplier),
            key, "", config.file, config.line(key), (Edit("unset", key),),
        )  # fmt: skip
    if supplier:
        why = say("it comes with the plugin {id}, which is not installed", id=supplier)
        install = Edit("install", value=f"claw-{supplier}")
        return Explanation(name, False, supplier, True, "not-installed", why, edits=(install,))
    if wanted in CORE_TOOLS:
        fix = say("tools.suppliers.{name} hands the name to a plugin that brings it", name=wanted)
        why = say("its name is kept for a core tool that nobody supplies yet")
        return Explanation(name, False, "", True, "no-supplier", why, fix=fix)
    near = nearest(wanted, _known(judgement, standings))
    fix = say("did you mean {near}?", near=near) if near else say("claw tools list --all shows every tool")
    why = say("no installed plugin brings a tool of this name")
    return Explanation(name, False, stage="unknown", why=why, fix=fix)


def _tools_of(standing: Standing) -> Iterable[str]:
    manifest = standing.found.manifest
    return [line.name for line in manifest.tools] if manifest else ()


def _known(judgement: Judgement, standings: Sequence[Standing]) -> set[str]:
    brought = {name for one in standings for name in _tools_of(one)}
    return brought | {fact.name for fact in judgement.facts} | set(CORE_TOOLS)


def _set_aside(name: str, plugin: Standing, config: Any) -> Explanation:
    """A plugin that would bring the tool is installed and not in use."""
    plugins, stage, key = config.settings.plugins, plugin.state, ""
    edits: tuple[Edit, ...] = ()
    if plugin.state == DISABLED:
        why = say("its plugin {id} is disabled", id=plugin.id)
        key = dotted(("plugins", "entries", plugin.id, "enabled"))
        edits = (Edit("set", key, True),)
    elif plugin.state == BLOCKED and plugin.id in plugins.deny:
        why = say("its plugin {id} is blocked by {key}", id=plugin.id, key="plugins.deny")
        key = f"plugins.deny[{plugins.deny.index(plugin.id)}]"
        edits = (Edit("unset", key),)
    elif plugin.state == BLOCKED:
        key = "plugins.allow"
        why = say("its plugin {id} is blocked by {key}", id=plugin.id, key=key)
        edits = (Edit("set", "plugins.allow[]", plugin.id),)
    elif plugin.state in (LOADED, IDLE):
        why, stage = say("its plugin {id} is there, but does not bring it", id=plugin.id), "not-brought"
    elif plugin.state == INCOMPATIBLE:
        why = say("its plugin {id} does not fit this claw: {why}", id=plugin.id, why=plugin.why)
    else:
        names = {"id": plugin.id, "stage": plugin.stage, "why": plugin.why}
        why = say("its plugin {id} was set aside at {stage}: {why}", **names)
    return Explanation(
        name, False, plugin.id, False, stage, why, key, "", config.file if key else "",
        config.line(key) if key else None, edits, "" if edits else plugin.mend,
    )  # fmt: skip
