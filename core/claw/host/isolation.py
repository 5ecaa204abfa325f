"""Isolation: a plugin's code, run within limits of time, output, working folder and signals.

In-process code is trusted code (SECURITY.md); isolation protects the host from accidents, not from attacks.
"""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TextIO, TypeVar

from claw.contracts.errors import ClawError
from claw.host.health import FAILED, HUNG, LoadFailure, location_of
from claw.i18n import t

T = TypeVar("T")

_KEPT_MODULES = ("builtins", "json", "asyncio")


@contextlib.contextmanager
def limited_cpu(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in this block after ``seconds`` of CPU time, also inside a regular expression.

    A signal does it, which Python handles in the main thread alone: in another thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(t("it takes more than {seconds} s", seconds=f"{seconds:g}"))

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits for plugin code: seconds, unless a field counts times.

    :param hook_seconds: for one ``register_*`` hook to answer.
    :param command_seconds: for a chat command to answer.
    :param long_command_seconds: the same, for one that waits for a model.
    :param engine_seconds: for a context engine, without the model calls and tools that it waits for.
    :param section_keep_seconds: how long the text of a stable section is reused without rendering it again.
    :param max_timeouts: after so many timeouts a plugin is left out for ``late_pause_seconds`` after each.
    :param worker_seconds: for a plugin worker to show that its loop is not blocked.
    :param silence_seconds: for a provider between two events of one answer. The last resort: providers have a
        ``timeoutSeconds`` of their own.
    :param tries: how often in a row a channel may stop listening before it is quarantined.
    :param pause_seconds: before the first retry of a channel; doubled each time.
    :param stop_seconds: for running turns, and then for channels, when the process stops.
    :param grace_seconds: for a cancelled task to end before it is abandoned.
    """

    import_seconds: float = 20.0
    hook_seconds: float = 10.0
    review_seconds: float = 5.0
    filter_seconds: float = 5.0
    observe_seconds: float = 2.0
    command_seconds: float = 30.0
    long_command_seconds: float = 3600.0
    section_seconds: float = 5.0
    engine_seconds: float = 60.0
    section_keep_seconds: float = 3.0
    max_timeouts: int = 2
    late_pause_seconds: float = 60.0
    worker_seconds: float = 0.5
    silence_seconds: float = 3600.0
    tries: int = 5
    pause_seconds: float = 1.0
    send_seconds: float = 30.0
    stop_seconds: float = 10.0
    close_seconds: float = 5.0
    grace_seconds: float = 1.0


DEFAULT_TIMEOUTS = Timeouts()


class ProcessExitRaised(Exception):
    """A plugin raised an exception that would have ended the process (``SystemExit`` …); the text names it."""


class PluginTimeout(TimeoutError):
    """Plugin code did not return within its limit."""


class DiscardedOutput(io.TextIOBase):
    """A stream for what a plugin prints, so that nothing of it reaches the person's terminal."""

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, text: str) -> int:
        """Discard the text; return the number of its characters."""
        return len(text)


def run_bounded(
    run: Callable[[], T],
    seconds: float,
    threads: Callable[[BaseException], None] = lambda why: None,
    undone: Callable[[str], None] = lambda what: None,
) -> T:
    """Run plugin code for at most ``seconds``, in a thread that is abandoned when it hangs.

    The working folder, what it took from the import paths, and the functions of Python that claw cannot run without
    are restored afterwards; printed text is discarded; signal handlers that the code sets have no effect.

    :param threads: called with each exception in a thread that the code started meanwhile.
    :param undone: called with what the code changed for the whole process, and what is as before.
    :raises PluginTimeout: it did not return. All other exceptions pass through.
    """
    outcome, raised = list[T](), list[BaseException]()

    def inside() -> None:
        try:
            outcome.append(run())
        except BaseException as why:  # noqa: BLE001 - raised again in the caller's thread
            raised.append(why)

    with _keep_process(threads, undone), _keep_python(undone), contextlib.redirect_stdout(DiscardedOutput()):
        thread = threading.Thread(target=inside, daemon=True, name="claw-plugin")
        thread.start()
        thread.join(seconds)
    if thread.is_alive():
        raise PluginTimeout(f"it did not come back within {seconds:g} s")
    if raised:
        raise raised[0]
    return outcome[0]


@contextlib.contextmanager
def reserved_stdout() -> Iterator[TextIO]:
    """Reserve stdout for claw: discard what plugins, or programs they start, print meanwhile."""
    real = own = sys.stdout
    with contextlib.ExitStack() as restored:
        if _is_descriptor(real, 1):  # else an object replaced it, which no child process can inherit
            real.flush()
            kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
            restored.callback(os.close, kept)
            restored.callback(os.dup2, kept, 1)
            os.dup2(null, 1)
            os.close(null)
            text = os.fdopen(kept, "w", encoding=real.encoding, errors=real.errors, closefd=False)
            own = restored.enter_context(text)
        restored.enter_context(contextlib.redirect_stdout(DiscardedOutput()))
        yield own


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):
        return False


def text_of(why: BaseException) -> str:
    """Return the text of an exception; empty if its ``__str__`` raises."""
    try:
        return str(why)
    except BaseException:  # noqa: BLE001 - a plugin's __str__
        return ""


def describe_exception(why: BaseException) -> str:
    """Return type and text of an exception."""
    text = text_of(why)
    if isinstance(why, ProcessExitRaised | PluginTimeout | ClawError):
        return text
    return f"{type(why).__name__}: {text}" if text else type(why).__name__


def show_traceback(why: BaseException) -> None:
    """Print the traceback of a plugin's failure when ``CLAW_DEBUG`` is set."""
    if os.environ.get("CLAW_DEBUG"):
        import traceback

        traceback.print_exception(why)


def failure_of(plugin: str, stage: str, why: BaseException, kind: str = FAILED) -> LoadFailure:
    """Return the failure of a plugin that raised ``why``, or did not return in time."""
    kind = HUNG if isinstance(why, PluginTimeout) else kind
    if not isinstance(why, ClawError):
        place = location_of(why)
        line = " ".join(describe_exception(why).split())  # a row of a table has one line
        return LoadFailure(plugin, kind, stage, line + (f" ({place})" if place else ""))
    cause, fix, values = why.parts
    return LoadFailure(plugin, kind, stage, cause, fix, place=why.where, values=values)


@contextlib.contextmanager
def _keep_python(undone: Callable[[str], None]) -> Iterator[None]:
    """Restore what code removes from that by which Python imports, and replaces in ``_KEPT_MODULES``.

    Additions stay. A function of asyncio may be replaced by another, as some libraries do.
    """
    modules = sys.modules.copy()
    paths = {name: (one := getattr(sys, name), [*one]) for name in ("path", "meta_path", "path_hooks")}
    kept = [sys.modules[name] for name in _KEPT_MODULES if name in sys.modules]
    names = [(module, vars(module).copy()) for module in kept]
    try:
        yield
    finally:
        for name, (own, before) in paths.items():
            now = getattr(sys, name, None)
            left = [*now] if isinstance(now, list) else []
            if any(one not in left for one in before):
                own[:] = [*before, *(one for one in left if one not in before)]
                setattr(sys, name, own)
                undone(f"sys.{name}")
        gone = modules.keys() - sys.modules.keys()
        if any(name.partition(".")[0] in ("claw", *sys.builtin_module_names) for name in gone):
            sys.modules.update({name: modules[name] for name in gone})
            undone("sys.modules")
        for module, functions in names:
            for name, value in functions.items():
                now = vars(module).get(name)
                may_differ = name == "_" or (module.__name__ == "asyncio" and callable(now))
                if callable(value) and now is not value and not may_differ:
                    setattr(module, name, value)
                    undone(f"{module.__name__}.{name}")


@contextlib.contextmanager
def _keep_process(threads: Callable[[BaseException], None], undone: Callable[[str], None]) -> Iterator[None]:
    """Keep what belongs to the whole process as it is: the working folder, the signal handlers, which are claw's own, and
    the terminal, to which Python prints the exceptions of threads.
    """
    set_handler, thread_hook, folder = signal.signal, threading.excepthook, ""
    with contextlib.suppress(FileNotFoundError):  # it was removed; there is nothing to restore
        folder = os.getcwd()

    def keep_handler(number: int, handler: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return set_handler(number, handler)
        undone(t("the handler of {signal}", signal=signal.Signals(number).name))
        return signal.getsignal(number)

    def tell(raised: threading.ExceptHookArgs) -> None:
        if raised.exc_value is not None:
            threads(raised.exc_value)

    signal.signal, threading.excepthook = keep_handler, tell  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal, threading.excepthook = set_handler, thread_hook
        with contextlib.suppress(FileNotFoundError):
            if folder and os.getcwd() != folder:
                undone(t("the working folder"))
        if folder:
            os.chdir(folder)


_GUARDED = (
    *("claw.policy", "claw.agent.tool_gate", "claw.agent.routing", "claw.host.calls", "claw.security"),
    "claw.storage.files",
)


def function_ids() -> dict[str, int]:
    """Return every function of the guarded modules with the identity of its code: ``claw.policy.engine:judge``
    → id.
    """
    # Copies: another thread, or a finalizer that runs here, may import a module.
    return {
        f"{name}:{key}": id(value.__code__)
        for name, module in sys.modules.copy().items()
        if name.startswith(_GUARDED) and module is not None
        for key, value in vars(module).copy().items()
        if type(value) is FunctionType
    }


def replaced_functions(before: dict[str, int], after: dict[str, int]) -> tuple[str, ...]:
    """Return the names of functions that were replaced, sorted."""
    return tuple(sorted(name for name, code in before.items() if after.get(name, code) != code))
