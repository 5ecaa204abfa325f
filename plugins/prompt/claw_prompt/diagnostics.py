"""The check of ``prompt`` in the config file."""

from collections.abc import Iterable, Iterator, Sequence

from claw import DiagnosticContext, Finding, nearest, t
from claw.runtime import InstalledPlugin, Setup, format_key


class PromptDiagnostic:
    """The diagnostic of this plugin: it judges the file alone."""

    name = "prompt"

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Return nothing: all that can be wrong is in the file."""
        return ()

    def check_config(self, setup: Setup) -> Iterator[Finding]:
        """Find names in ``prompt.disabled`` and ``prompt.positions`` that no section of an installed plugin has."""
        known = section_names(setup.found)
        if known is None:
            return
        prompt = setup.config.settings.prompt
        places = [(("prompt", "disabled", index), name) for index, name in enumerate(prompt.disabled)]
        for path, name in [*places, *((("prompt", "positions", name), name) for name in prompt.positions)]:
            if name not in known:
                near = nearest(name, known)
                fix = (
                    t("Did you mean {near}?", near=near) if near else t("claw prompt show lists the sections")
                )
                why = t("no section of the prompt has the name {name}, so it has no effect", name=name)
                yield Finding(format_key(path), "section", why, fix, grave=False)


def section_names(found: Iterable[InstalledPlugin]) -> set[str] | None:
    """Return the names of all sections that manifests list.

    :returns: None if a plugin has no manifest, or contributes sections that its manifest does not name.
    """
    manifests = [one.manifest for one in found if not one.fault]
    if any(one is None or ("section" in one.kinds and not one.prompt_sections) for one in manifests):
        return None
    return {name for one in manifests if one for name in one.prompt_sections}
