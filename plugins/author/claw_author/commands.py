"""``claw plugins new``, ``build`` and ``check``: parse, call, print."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import UsageError, t
from claw.runtime import AsJson, document
from claw.testing import tool_tokens

from claw_author import manifest_builder, scaffold
from claw_author.judgement import (
    built_manifest,
    installed_plugin,
    judge_installed,
    judge_project,
    written_manifest,
)
from claw_author.project import find

Kind = Annotated[
    str, typer.Option("--kind", help="tool, channel, provider, section, reviewer, middleware or service.")
]


def new(
    name: str,
    kind: Kind = "tool",
    path: Annotated[
        Path | None, typer.Option(help="Folder to write; claw-plugin-NAME here when left out.")
    ] = None,
    effects: Annotated[
        str | None, typer.Option(help="Of its tool: none (it only reads), idempotent or once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a plugin that passes its own tests at once, to start from."""
    plugin = scaffold.plugin_of(name)
    folder = path or Path(f"claw-plugin-{plugin}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "{folder} is there and not empty", fix="name another folder with --path", folder=folder
        )
    if effects is None and kind == "tool" and not as_json and sys.stdin.isatty():
        question = t(
            "Effects of its tool: none (it only reads), idempotent, or once (never repeated after a crash)"
        )
        effects = typer.prompt(question, default="once")
    for file, text in scaffold.files(plugin, kind, effects or "none").items():
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    project = find(folder)
    project.manifest.write_text(manifest_builder.manifest_text(built_manifest(project)), encoding="utf-8")
    if as_json:
        document("plugin-project", {"folder": str(folder), "plugin": plugin, "template": kind})
        return
    typer.echo(t("{folder}: the {kind} plugin {plugin}", folder=folder, kind=kind, plugin=plugin))
    typer.echo(t("next: {command}", command=f"cd {folder} && {sys.executable} -m pytest -q"))
    if find_spec("pytest") is None:
        typer.echo(t("first: {command}", command="python -m pip install pytest"))


def build(
    path: Annotated[Path, typer.Argument(help="Folder of the project.")] = Path(),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when the manifest would change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write claw-plugin.json from the code; the code is imported in a process of its own."""
    project = find(path)
    manifest, before = built_manifest(project), written_manifest(project)
    changes = list(manifest_builder.differences(manifest, before)) if before else [t("it is missing")]
    if changes and not check:
        project.manifest.write_text(manifest_builder.manifest_text(manifest), encoding="utf-8")
    if as_json:
        body = {"file": str(project.manifest), "changes": changes, "written": bool(changes) and not check}
        document("plugin-manifest", body)
    elif not changes:
        typer.echo(t("{file}: as the code says", file=project.manifest))
    elif check:
        for change in changes:
            typer.echo(f"{project.manifest}: {change}", err=True)
        typer.echo(t("{command} writes it again", command=f"claw plugins build {path}"), err=True)
    else:
        typer.echo(t("{file}: written", file=project.manifest))
    raise typer.Exit(1 if changes and check else 0)


def check(
    plugin: Annotated[str, typer.Argument(help="Folder of a project, or id of an installed plugin.")] = ".",
    ignore: Annotated[
        list[str] | None, typer.Option(help="A rule to leave out; may be given more than once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what keeps a plugin from being used everywhere: schemas, names, descriptions, price, manifest."""
    manifest, findings = (
        judge_project(find(Path(plugin)))
        if Path(plugin).is_dir()
        else judge_installed(installed_plugin(plugin))
    )
    findings = [finding for finding in findings if finding.rule not in (ignore or ())]
    prices = {tool.name: tool_tokens(tool) for tool in manifest.tools}
    if as_json:
        tools = [{"name": name, "tokens": tokens} for name, tokens in prices.items()]
        body: dict[str, Any] = {"plugin": manifest.id, "tokens": sum(prices.values()), "tools": tools}
        document("pluginCheck", body | {"findings": [finding.as_data() for finding in findings]})
    else:
        for name, tokens in prices.items():
            typer.echo(t("{name}: {tokens} tokens in every request that offers it", name=name, tokens=tokens))
        for finding in findings:
            typer.echo(f"{finding.where}: {finding.problem} ({finding.rule})")
        count = t("{count:finding|findings}", count=len(findings)) if findings else t("no findings")
        typer.echo(f"{manifest.id}: {count}")
    raise typer.Exit(1 if findings else 0)
