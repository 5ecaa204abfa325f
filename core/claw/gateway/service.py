"""The gateway as a service of the system: a systemd user unit on Linux, a launchd agent on macOS.

Sources: systemd.service(5), systemd.exec(5), systemd.unit(5) on quoting; launchd.plist(5), launchctl(1).
"""

import hashlib
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claw.errors import ClawError
from claw.store import SYSTEM as DISK
from claw.words import say

ENVIRONMENT_FILE = "gateway.env"
"""In the home: ``NAME=value`` lines for the service, such as keys; systemd reads it when it is there."""
_SECONDS = 60.0


@dataclass(frozen=True)
class Service:
    """One home's gateway, as the service manager of this machine knows it.

    :param home: of claw.
    :param kind: ``systemd`` or ``launchd``.
    """

    home: Path
    environ: Mapping[str, str]
    kind: str = "launchd" if sys.platform == "darwin" else "systemd"
    python: str = sys.executable

    @property
    def name(self) -> str:
        """The default home has the plain name; another one's tells it apart."""
        own = self.home == self._user / ".claw"
        tail = "" if own else f"-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:8]}"
        return f"claw.gateway{tail}" if self.kind == "launchd" else f"claw-gateway{tail}"

    @property
    def path(self) -> Path:
        """Where its file belongs."""
        if self.kind == "launchd":
            return self._user / "Library" / "LaunchAgents" / f"{self.name}.plist"
        config = self.environ.get("XDG_CONFIG_HOME") or str(self._user / ".config")
        return Path(config) / "systemd" / "user" / f"{self.name}.service"

    @property
    def text(self) -> str:
        """What belongs into its file."""
        return self._plist() if self.kind == "launchd" else self._unit()

    @property
    def commands(self) -> tuple[str, ...]:
        """What a person types to have it started now and at every login."""
        if self.kind == "launchd":
            return (f"launchctl bootstrap gui/{os.getuid()} {self.path}",)
        return (
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {self.name}",
            "loginctl enable-linger",
        )

    @property
    def installed(self) -> bool:
        """Whether its file is there."""
        return self.path.is_file()

    def why_not(self) -> str:
        """Why there is no service manager here that could take it; empty when there is one."""
        tool = "launchctl" if self.kind == "launchd" else "systemctl"
        if shutil.which(tool, path=self.environ.get("PATH", os.defpath)) is None:
            return say("there is no {tool} here, as in most containers", tool=tool)
        asked = ("print", f"gui/{os.getuid()}") if self.kind == "launchd" else ("--user", "show-environment")
        if self._ask(tool, *asked).returncode:
            return say(
                "{tool} does not reach a service manager of this user, as in most containers", tool=tool
            )
        return ""

    def usable(self) -> bool:
        """Whether it is installed and can be started and stopped here."""
        return self.installed and not self.why_not()

    def pid(self) -> int:
        """The process that the service manager runs for it; 0 = none."""
        if self.kind == "launchd":
            words = self._ask("launchctl", "print", f"gui/{os.getuid()}/{self.name}").stdout.split()
            told = words[words.index("pid") + 2] if "pid" in words[:-2] else ""
        else:
            told = self._ask(
                "systemctl", "--user", "show", "-p", "MainPID", "--value", self.name
            ).stdout.strip()
        return int(told) if told.isdigit() else 0

    def install(self) -> bool:
        """Put its file there; False when it is there already, byte for byte.

        :raises ClawError: there is no service manager, or the file cannot be written.
        """
        if why := self.why_not():
            raise ClawError(
                "{why}",
                fix="Start it with claw gateway start; in a container let its command be: claw gateway run",
                why=why,
            )
        data = self.text.encode()
        try:
            if self.path.read_bytes() == data:
                return False
        except OSError:
            pass
        DISK.make_folder(self.path.parent)
        try:
            DISK.replace(self.path, data, 0o600)
        except OSError as refused:
            raise ClawError("cannot write: {why}", where=str(self.path), why=refused.strerror) from refused
        return True

    def start(self) -> None:
        """Have it started.

        :raises ClawError: the service manager refuses.
        """
        if self.kind == "launchd":
            self._do("launchctl", "kickstart", f"gui/{os.getuid()}/{self.name}")
        else:
            self._do("systemctl", "--user", "start", self.name)

    def stop(self) -> None:
        """Have it stopped; it stays so until the next login or ``start``.

        :raises ClawError: the service manager refuses.
        """
        if self.kind == "launchd":
            self._do("launchctl", "kill", "SIGTERM", f"gui/{os.getuid()}/{self.name}")
        else:
            self._do("systemctl", "--user", "stop", self.name)

    @property
    def _user(self) -> Path:
        return Path(self.environ.get("HOME") or Path.home())

    def _do(self, *words: str) -> None:
        done = self._ask(*words)
        if done.returncode:
            logs = f"journalctl --user -u {self.name} -n 20"
            raise ClawError(
                "{command} failed: {why}",
                fix="{logs} may tell more" if self.kind == "systemd" else "claw logs may tell more",
                command=" ".join(words), why=done.stderr.strip() or done.returncode, logs=logs,
            )  # fmt: skip

    def _ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, **self.environ}
        try:
            return subprocess.run(
                words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as why:
            return subprocess.CompletedProcess(words, 1, "", str(why))

    def _unit(self) -> str:
        command = " ".join(map(_quoted, (self.python, "-m", "claw", "gateway", "run")))
        path = self.environ.get("PATH", os.defpath)
        return f"""\
# Written by: claw gateway install
[Unit]
Description=claw gateway ({_plain(str(self.home))})
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Environment={_quoted(f"CLAW_HOME={self.home}", dollar="$")}
Environment={_quoted(f"PATH={path}", dollar="$")}
EnvironmentFile=-{_plain(str(self.home / ENVIRONMENT_FILE))}
WorkingDirectory={_plain(str(self.home))}
Restart=on-failure
RestartSec=2
# a wrong command line, config file or required plugin: trying again mends none of them
RestartPreventExitStatus=2 3 4
TimeoutStopSec=25
KillMode=mixed
UMask=0077

[Install]
WantedBy=default.target
"""

    def _plist(self) -> str:
        return plistlib.dumps(
            {
                "Label": self.name,
                "ProgramArguments": [self.python, "-m", "claw", "gateway", "run"],
                "EnvironmentVariables": {
                    "CLAW_HOME": str(self.home),
                    "PATH": self.environ.get("PATH", os.defpath),
                },
                "WorkingDirectory": str(self.home),
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ThrottleInterval": 5,
                "ExitTimeOut": 25,
                "Umask": 0o077,
                "ProcessType": "Background",
                "StandardErrorPath": str(self.home / "logs" / "gateway.out"),
            },
            sort_keys=False,
        ).decode()


def _quoted(word: str, dollar: str = "$$") -> str:
    """A word of a command line in a unit file. ``dollar``: how one is written, doubled in commands alone."""
    text = _plain(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", dollar)
    return f'"{text}"' if any(letter in word for letter in " \t\"'\\;") else text


def _plain(text: str) -> str:
    """``%`` begins a specifier everywhere in a unit file."""
    return text.replace("%", "%%").replace("\n", " ")


def shown(words: Sequence[str]) -> str:
    """Commands for people, one a line, indented."""
    return "\n".join(f"  {line}" for line in words)
