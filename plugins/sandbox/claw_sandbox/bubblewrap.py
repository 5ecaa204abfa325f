"""Bubblewrap: command lines that run a program in namespaces of its own.

The options are those of bwrap(1), release 0.4 and later.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from claw import t

PROBE_SECONDS = 10.0
_EMPTY = ("/tmp", "/var/tmp", "/run")
_HOMES = ("/home", "/root")
_PARTS = ("bin", "sbin", "lib", "lib64", "libexec", "shims", "versions")
"""The folders beside a folder of programs that the programs need; ``shims`` and ``versions`` are pyenv's and the like."""
_REFUSED = ("namespace", "uid map", "Operation not permitted")


class Bubblewrap:
    """The sandbox ``bubblewrap``.

    :param home: ``CLAW_HOME``, which no command sees.
    :param environ: the environment of claw: its ``HOME`` is hidden too.
    """

    name = "bubblewrap"

    def __init__(self, home: Path, environ: Mapping[str, str], *, network: bool = False) -> None:
        self._network = network
        self._home = home.resolve()
        homes = {Path(one).resolve() for one in (*_HOMES, environ.get("HOME") or home, home)}
        self._hidden = sorted(one for one in homes if one.is_dir() and one != Path("/"))
        self._path = environ.get("PATH", os.defpath)

    @cached_property
    def _bwrap(self) -> str | None:
        """The program, by its path: the ``PATH`` of a command may name another one."""
        return shutil.which("bwrap", path=self._path)

    async def probe(self) -> str:
        """Run a command that writes in the workspace and sees nothing of the home; return what does not work."""
        if self._bwrap is None:
            return t("the program bwrap is missing; on Debian and Ubuntu: apt install bubblewrap")
        with tempfile.TemporaryDirectory() as folder:
            script = "echo ok > probe && cat probe"
            line = self.wrap(["/bin/sh", "-c", script], workspace=Path(folder), environment={})
            process = await asyncio.create_subprocess_exec(
                *line, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    out, err = await process.communicate()
            except TimeoutError:
                process.kill()
                await process.wait()
                return t("a command in it did not end within {seconds} s", seconds=f"{PROBE_SECONDS:g}")
        said = err.decode(errors="replace").strip()
        if process.returncode == 0 and out == b"ok\n":
            return ""
        if any(word in said for word in _REFUSED):
            return t(
                "this system refuses namespaces ({why}); on Ubuntu 24.04: sudo sysctl -w "
                "kernel.apparmor_restrict_unprivileged_userns=0; in Docker: --security-opt seccomp=unconfined",
                why=said,
            )
        return said or t("a command in it failed")

    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> list[str]:
        """Return the command line that runs ``argv`` in the sandbox."""
        place = workspace.resolve()
        path = environment.get("PATH", self._path)
        line = [self._bwrap or "bwrap", "--unshare-all", *(["--share-net"] if self._network else [])]
        line += [
            "--die-with-parent",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ]
        for folder in (*map(Path, _EMPTY), *self._hidden):
            if folder.is_dir() and not folder.is_symlink():
                line += ["--tmpfs", str(folder)]
        for shown in sorted({*self._programs(argv[0], path)}):
            line += ["--ro-bind", str(shown), str(shown)]
        if self._network and (names := Path("/etc/resolv.conf").resolve()).is_relative_to("/run"):
            line += ["--ro-bind-try", str(names), str(names)]
        return [*line, "--bind", str(place), str(place), *argv]

    def _programs(self, program: str, path: str) -> Iterator[Path]:
        """Yield the folders of programs below hidden ones: those of ``PATH``, and that of the program itself."""
        found = shutil.which(program, path=path)
        folders = [Path(one) for one in path.split(os.pathsep) if os.path.isabs(one)]
        folders += [Path(found).parent, Path(found).resolve().parent] if found else []
        homes = {folder for hidden in self._hidden for folder in (hidden, *hidden.parents)}
        for folder in {one for each in folders for one in (each, each.resolve())}:
            if folder.is_relative_to(self._home) or not any(map(folder.is_relative_to, self._hidden)):
                continue
            beside = () if folder.parent in homes else _PARTS
            yield from (one for one in (folder, *(folder.parent / name for name in beside)) if one.is_dir())
