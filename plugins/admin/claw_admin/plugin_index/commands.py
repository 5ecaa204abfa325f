"""``claw plugins search`` and ``claw plugins index``."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer
from claw import ClawError, HttpClients, PluginConfig, UsageError, t
from claw.runtime import (
    AsJson,
    describe_exception,
    document,
    installed_plugins,
    load_setup,
    normalise_distribution,
    one_line,
    replace_file,
    table,
    with_label,
)

from claw_admin.plugin_index.index_format import (
    MOST_BYTES,
    SIGNATURE_SUFFIX,
    IndexedPlugin,
    decode_index,
    encode_index,
    index_of,
    require_signature,
    sign,
)
from claw_admin.plugin_index.settings import PluginIndexSettings

BUILT_IN = Path(__file__).with_name("plugins.json")
"""The index of claw's own plugins and examples, which ``docs/make.py`` generates from their manifests."""
_FETCH_SECONDS = 20.0
Words = Annotated[
    list[str] | None, typer.Argument(help="Parts of names, kinds or descriptions; all must be there.")
]
Packages = Annotated[
    list[str] | None, typer.Argument(help="Distributions; none: all plugins that are installed.")
]


def search(words: Words = None, as_json: AsJson = False) -> None:
    """Search the index of plugins: claw's own, and that of pluginIndex. Exit code 1: nothing was found."""
    here = {normalise_distribution(one.distribution) for one in installed_plugins()}
    found = _ranked(_known(), words or ())
    if as_json:
        states = [normalise_distribution(one.distribution) in here for one in found]
        rows = [
            msgspec.to_builtins(one) | {"installed": state} for one, state in zip(found, states, strict=True)
        ]
        document("plugin-search", {"plugins": rows})
    elif found:
        head = [t("package"), t("version"), t("kinds"), t("description")]
        table(head, [_row(one, normalise_distribution(one.distribution) in here) for one in found])
    else:
        typer.echo(t("no plugin was found"))
    raise typer.Exit(0 if found else 1)


def index(
    file: Annotated[Path, typer.Argument(help="The file to write; the signature is written beside it.")],
    packages: Packages = None,
    key: Annotated[Path | None, typer.Option(help="Private Ed25519 key (PEM): signs the index.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write an index of installed plugins, for others to search. With --key it is signed; the public key is printed."""
    wanted = {normalise_distribution(one) for one in packages or ()}
    plugins = [one for one in installed_plugins() if not one.rival]
    known = {normalise_distribution(one.distribution) for one in plugins}
    if missing := sorted(wanted - known):
        raise UsageError(
            "{name} is not installed, or has no plugin", fix="claw plugins list shows all", name=missing[0]
        )
    chosen = [one for one in plugins if not wanted or normalise_distribution(one.distribution) in wanted]
    made = index_of(chosen)
    data, public = encode_index(made), ""
    if key:
        signature, public = sign(data, _read(key))
        _write(file.with_name(file.name + SIGNATURE_SUFFIX), signature.encode() + b"\n")
    _write(file, data)
    if as_json:
        document("plugin-index-written", {"file": str(file), "plugins": len(made.plugins), "key": public})
        return
    typer.echo(t("{file} lists {count:plugin|plugins}", file=file, count=len(made.plugins)))
    if public:
        typer.echo(with_label(t("public key, for pluginIndex.key"), public))


def _known() -> Iterator[IndexedPlugin]:
    """Yield the plugins of both indexes; one of the configured index takes the place of one of the same name."""
    own = _configured()
    names = {normalise_distribution(one.distribution) for one in own}
    yield from own
    built_in = decode_index(BUILT_IN.read_bytes(), str(BUILT_IN)).plugins
    yield from (one for one in built_in if normalise_distribution(one.distribution) not in names)


def _configured() -> tuple[IndexedPlugin, ...]:
    whole = load_setup().config
    config = PluginConfig(whole, "admin", HttpClients().client, whole.home / "plugins" / "admin")
    settings = config.section("pluginIndex", PluginIndexSettings)
    if not settings.url:
        return ()
    data, signature = _bytes_of(settings.url)
    require_signature(data, signature.decode("ascii", "replace"), settings.key, settings.url)
    return decode_index(data, settings.url).plugins


def _bytes_of(place: str) -> tuple[bytes, bytes]:
    """Return an index and its signature, from an address or from files."""
    if "://" in place:
        return asyncio.run(_fetched(place))
    return _read(Path(place).expanduser()), _read(Path(place + SIGNATURE_SUFFIX).expanduser())


async def _fetched(place: str) -> tuple[bytes, bytes]:
    network = HttpClients()
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            return await _body(network, place), await _body(network, place + SIGNATURE_SUFFIX)
    except TimeoutError:
        problem = "{place} did not answer within {seconds:g} s"
        raise ClawError(problem, place=place, seconds=_FETCH_SECONDS) from None
    finally:
        await network.aclose()


async def _body(network: HttpClients, address: str) -> bytes:
    import httpx2

    data, parts = b"", urlsplit(address)
    try:
        async with network.client(address).stream(
            "GET", parts._replace(scheme="", netloc="").geturl()
        ) as answer:
            if answer.status_code != 200:
                raise ClawError(
                    "{place} answered with HTTP {status}", place=address, status=answer.status_code
                )
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > MOST_BYTES:
                    raise ClawError("{place} is larger than {size} MB", place=address, size=MOST_BYTES >> 20)
    except httpx2.HTTPError as why:
        raise ClawError(
            "{place} cannot be fetched: {why}", place=address, why=describe_exception(why)
        ) from None
    return data


def _ranked(plugins: Iterator[IndexedPlugin], words: Sequence[str]) -> list[IndexedPlugin]:
    """Return the plugins in which all words are, those first that have one in their name."""
    wanted = [word.casefold() for word in words]
    found = [one for one in plugins if all(word in _text(one) for word in wanted)]
    return sorted(found, key=lambda one: (not any(word in one.id.casefold() for word in wanted), one.id))


def _text(one: IndexedPlugin) -> str:
    tools = (tool.name for tool in one.tools)
    parts = (
        one.id,
        one.distribution,
        one.description,
        *one.kinds,
        *tools,
        *one.channels,
        *one.providers,
        *one.commands,
    )
    return "\n".join(parts).casefold()


def _row(one: IndexedPlugin, is_here: bool) -> list[str]:
    state = t("installed") if is_here else f"claw plugins install {one.distribution}"
    kinds = t(",").join(t(kind) for kind in one.kinds)
    return [
        one_line(one.distribution),
        one_line(one.version),
        one_line(kinds),
        f"{one_line(one.description)} ({state})",
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as why:
        raise ClawError("{file} cannot be read: {why}", file=path, why=why.strerror or why) from None


def _write(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as why:
        raise ClawError("{file} cannot be written: {why}", file=path, why=why.strerror or why) from None
