"""The gateway as a service of the system: a systemd user unit on Linux, a launchd agent on macOS.

Sources: systemd.service(5), systemd.exec(5), systemd.unit(5) on quoting; launchd.plist(5), launchctl(1).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claw import ClawError, t
from claw.runtime import SYSTEM_DISK

from claw_gateway.process.descriptors import MOST_FILES

ENVIRONMENT_FILE = "gateway.env"
"""File in the home: ``NAME=value`` lines for the service, such as keys; systemd reads it when it exists."""
_SECONDS = 60.0


@dataclass(frozen=True)
class SystemService:
    """The gateway of one home as a service of this machine's service manager.

    :param home: the home of claw.
    :param kind: ``systemd`` or ``launchd``.
    """

    home: Path
    environ: Mapping[str, str]
    kind: str = "launchd" if sys.platform == "darwin" else "systemd"
    python: str = sys.executable

    @property
    def name(self) -> str:
        """The service's name: plain for the default home, with a hash of the path for any other."""
        own = self.home == self._user / ".claw"
        tail = "" if own else f"-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:8]}"
        return f"claw.gateway{tail}" if self.kind == "launchd" else f"claw-gateway{tail}"

    @property
    def path(self) -> Path:
        """The path of the service file."""
        if self.kind == "launchd":
            return self._user / "Library" / "LaunchAgents" / f"{self.name}.plist"
        config = self.environ.get("XDG_CONFIG_HOME") or str(self._user / ".config")
        return Path(config) / "systemd" / "user" / f"{self.name}.service"

    @property
    def text(self) -> str:
        """The content of the service file."""
        return self._plist() if self.kind == "launchd" else self._unit()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that start the service now and at every login."""
        if self.kind == "launchd":
            return (f"launchctl bootstrap gui/{os.getuid()} {self.path}",)
        return (
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {self.name}",
            "loginctl enable-linger",
        )

    @property
    def installed(self) -> bool:
        """True if the service file exists."""
        return self.path.is_file()

    def unavailable_reason(self) -> str:
        """Return why no service manager here could run the service; empty when one can."""
        tool = "launchctl" if self.kind == "launchd" else "systemctl"
        if shutil.which(tool, path=self.environ.get("PATH", os.defpath)) is None:
            return t("{tool} is not available here, as in most containers", tool=tool)
        query = ("print", f"gui/{os.getuid()}") if self.kind == "launchd" else ("--user", "show-environment")
        if self._run(tool, *query).returncode:
            return t("{tool} cannot reach a service manager for this user, as in most containers", tool=tool)
        return ""

    def usable(self) -> bool:
        """Return true if the service is installed and can be started and stopped here."""
        return self.installed and not self.unavailable_reason()

    def pid(self) -> int:
        """Return the process id that the service manager runs; 0 = none."""
        if self.kind == "launchd":
            words = self._run("launchctl", "print", f"gui/{os.getuid()}/{self.name}").stdout.split()
            output = words[words.index("pid") + 2] if "pid" in words[:-2] else ""
        else:
            output = self._run(
                "systemctl", "--user", "show", "-p", "MainPID", "--value", self.name
            ).stdout.strip()
        return int(output) if output.isdigit() else 0

    def install(self) -> bool:
        """Write the service file; return false when it is there already, byte for byte.

        :raises ClawError: there is no service manager, or the file cannot be written.
        """
        if why := self.unavailable_reason():
            raise ClawError(
                "{why}",
                fix="Start it with claw gateway start; in a container use the command: claw gateway run",
                why=why,
            )
        data = self.text.encode()
        try:
            if self.path.read_bytes() == data:
                return False
        except OSError:
            pass
        SYSTEM_DISK.make_folder(self.path.parent)
        try:
            SYSTEM_DISK.replace(self.path, data, 0o600)
        except OSError as refused:
            raise ClawError("cannot write: {why}", where=str(self.path), why=refused.strerror) from refused
        return True

    def start(self) -> None:
        """Start the service.

        :raises ClawError: the service manager refuses.
        """
        if self.kind == "launchd":
            self._run_checked("launchctl", "kickstart", f"gui/{os.getuid()}/{self.name}")
        else:
            self._run_checked("systemctl", "--user", "start", self.name)

    def stop(self) -> None:
        """Stop the service; it stays stopped until the next login or ``start``.

        :raises ClawError: the service manager refuses.
        """
        if self.kind == "launchd":
            self._run_checked("launchctl", "kill", "SIGTERM", f"gui/{os.getuid()}/{self.name}")
        else:
            self._run_checked("systemctl", "--user", "stop", self.name)

    @property
    def _user(self) -> Path:
        return Path(self.environ.get("HOME") or Path.home())

    def _run_checked(self, *words: str) -> None:
        done = self._run(*words)
        if done.returncode:
            logs = f"journalctl --user -u {self.name} -n 20"
            raise ClawError(
                "{command} failed: {why}",
                fix="{logs} may show more" if self.kind == "systemd" else "claw logs may show more",
                command=" ".join(words),
                why=done.stderr.strip() or done.returncode,
                logs=logs,
            )

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
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
Description=claw gateway ({_escaped(str(self.home))})
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=notify
TimeoutStartSec=180
WatchdogSec=60
LimitNOFILE={MOST_FILES}
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Environment={_quoted(f"CLAW_HOME={self.home}", dollar="$")}
Environment={_quoted(f"PATH={path}", dollar="$")}
EnvironmentFile=-{_escaped(str(self.home / ENVIRONMENT_FILE))}
WorkingDirectory={_escaped(str(self.home))}
Restart=on-failure
RestartSec=2
# a wrong command line, config file or required plugin: a further try fixes none of them
RestartPreventExitStatus=2 3 4
TimeoutStopSec=25
KillMode=mixed
UMask=0077

[Install]
WantedBy=default.target
"""

    def _plist(self) -> str:
        import plistlib

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
                "SoftResourceLimits": {"NumberOfFiles": MOST_FILES},
                "Umask": 0o077,
                "ProcessType": "Background",
                "StandardErrorPath": str(self.home / "logs" / "gateway.out"),
            },
            sort_keys=False,
        ).decode()


def _quoted(word: str, dollar: str = "$$") -> str:
    """Quote a word of a command line in a unit file. ``dollar``: the form of a dollar sign, doubled only in
    commands."""
    text = _escaped(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", dollar)
    return f'"{text}"' if any(char in word for char in " \t\"'\\;") else text


def _escaped(text: str) -> str:
    """Escape ``%``, which begins a specifier everywhere in a unit file."""
    return text.replace("%", "%%").replace("\n", " ")


def indented_lines(words: Sequence[str]) -> str:
    """Format commands for people, one per line, indented."""
    return "\n".join(f"  {line}" for line in words)
