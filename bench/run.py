"""The figures of claw beside their budgets.

    .venv/bin/python bench/run.py [--out bench/results] [--quick] [--claw PATH]

Writes OUT.json and OUT.md. Everything runs on loopback against ``mock.py``. CPU time, module counts and bytes
are stable
on a shared machine; of wall times read the medians, and run again when the range is wide.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from report import markdown
from turns import Model, make_home

HERE = Path(__file__).parent
# A plugin that raises when it is imported: the bench would fail.
RAISING_PLUGIN = "raise RuntimeError('a plugin was imported')\n"
MODULES = """
import sys, atexit
atexit.register(lambda: print(len(sys.modules), file=sys.stderr))
sys.argv = {argv!r}
from claw.__main__ import main; main()
"""


def timed(command: list[str], environ: Mapping[str, str], runs: int) -> dict[str, float]:
    """Run a command repeatedly after a warm-up; return medians of wall and CPU time in ms, and the range
    of the former.
    """
    wall_times, cpu_times = [], []
    for number in range(runs + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            command,
            check=False,
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=environ["HOME"],
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        if number:
            wall_times.append(1000 * wall)
            cpu_times.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return {
        "wall_ms": statistics.median(wall_times),
        "cpu_ms": statistics.median(cpu_times),
        "wall_min_ms": min(wall_times),
        "wall_max_ms": max(wall_times),
    }


def modules(python: str, arguments: list[str], environ: Mapping[str, str]) -> int:
    """Count the modules that a process of ``claw ARGUMENTS`` has loaded at its end."""
    script = MODULES.format(argv=["claw", *arguments])
    done = subprocess.run([python, "-c", script], env=environ, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1])


def make_plugins(folder: Path, count: int) -> Path:
    """Create ``count`` installed plugins with manifests, as distributions on a path entry of their own."""
    folder.mkdir(parents=True)
    for number in range(count):
        name = f"claw_plugin_bench_{number}"
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(RAISING_PLUGIN)
        tool = {
            "name": f"bench_{number}",
            "description": "A tool of the bench.",
            "parameters": {"type": "object"},
        }
        manifest = {
            "id": f"bench-{number}",
            "name": name,
            "api": ">=1,<2",
            "kinds": ["tool"],
            "tools": [tool],
        }
        (folder / name / "claw-plugin.json").write_text(json.dumps(manifest))
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(f"[claw.plugins]\nbench-{number} = {name}\n")
        (info / "RECORD").write_text("")
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time.time(), time.time() - 3600))  # the index does not cache a file changed just now
    return folder


def processes(claw: list[str], folder: Path, runs: int) -> dict[str, Any]:
    """Measure commands as a person starts them: version, plugins with 0, 50 and 200 third-party plugins,
    one message.
    """
    model = Model()
    environ = make_home(folder / "home", model.url)
    found: dict[str, Any] = {"version": timed([*claw, "--version"], environ, runs)}
    found["version"]["modules"] = modules(sys.executable, ["--version"], environ)
    for count in (0, 50, 200):
        path = make_plugins(folder / f"plugins-{count}", count)
        with_plugins = {**environ, "PYTHONPATH": str(path)}
        for noun in ("plugins", "tools"):
            found[f"{noun}_{count}"] = timed([*claw, noun, "list"], with_plugins, runs)
    found["plugins_0"]["modules"] = modules(sys.executable, ["plugins", "list"], environ)
    few = max(3, runs // 3)
    for rounds in (0, 10):
        text = f"[[bench rounds={rounds} think=0]] go on"
        found[f"oneshot_{rounds}"] = timed([*claw, "chat", text], environ, few)
    found["oneshot_offline"] = timed([*claw, "chat", "--model", "offline/rules", "hello"], environ, few)
    sdk = [sys.executable, "-c", "from openai import AsyncOpenAI"]
    bare = timed([sys.executable, "-c", "pass"], environ, few)
    found["vendor_sdk_import"] = {key: value - bare[key] for key, value in timed(sdk, environ, few).items()}
    found["vendor_sdk_on_top"] = on_top(
        sdk[-1], "import claw.app, claw_openai.provider, httpx2", environ, few
    )
    model.stop()
    return found


def on_top(step: str, before: str, environ: Mapping[str, str], runs: int) -> dict[str, float]:
    """Measure ``step`` in a process that has done ``before``, in ms: the median."""
    script = f"import time\n{before}\nbegan = time.perf_counter()\n{step}\nprint(time.perf_counter() - began)"
    took = [
        float(subprocess.check_output([sys.executable, "-c", script], env=environ, text=True))
        for _ in range(runs)
    ]
    return {"wall_ms": 1000 * statistics.median(took)}


def policy() -> dict[str, float]:
    """Measure 500 tools through nine layers, each with an allow and a deny list: the best of several, in
    ms.
    """
    from claw.policy.engine import judge_tools
    from claw.policy.layers import LAYERS, Layer, ListEntry
    from claw.policy.subjects import RunFacts, ToolFact

    facts = tuple(ToolFact(f"tool_{n}", f"plugin-{n % 50}") for n in range(500))
    layers = []
    for number, name in enumerate(LAYERS):
        allow = ["tool_*", *(f"plugin-{n}" for n in range(20))]
        deny = [f"tool_{number}7*", *(f"tool_{n}" for n in range(number, 500, 50))]
        lists = [
            tuple(ListEntry(word, f"{name}.{way}") for word in words)
            for way, words in (("allow", allow), ("deny", deny))
        ]
        layers.append(Layer(name, name, allow=lists[0], deny=lists[1]))
    return {"ms": best(lambda: judge_tools(facts, layers, RunFacts("default")))}


def best(step: Callable[[], object], tries: int = 20) -> float:
    """Return the fastest of several runs, in ms."""
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - began))
    return min(times)


def main() -> None:
    """Measure, write both files, print the table; exit 1 when a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "latest")
    parser.add_argument("--quick", action="store_true", help="fewer runs, a shorter history")
    parser.add_argument(
        "--claw", default=str(Path(sys.executable).with_name("claw")), help="the command to measure"
    )
    options = parser.parse_args()
    runs = 5 if options.quick else 15
    sizes = (
        ["--turns", "10", "--history", "200", "--seconds", "2", "--sessions", "50"] if options.quick else []
    )
    with tempfile.TemporaryDirectory() as folder:
        machine = f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}"
        found: dict[str, Any] = {"machine": machine}
        found["processes"] = processes([sys.executable, options.claw], Path(folder), runs)
    found["policy"] = policy()
    worker = subprocess.run(
        [sys.executable, str(HERE / "turns.py"), *sizes], stdout=subprocess.PIPE, text=True, check=True
    )
    found["turns"] = json.loads(worker.stdout)
    streams = [sys.executable, str(HERE / "streams.py")]
    found["streams"] = json.loads(
        subprocess.run(streams, stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    sizes = (
        ["--turns", "10", "--seconds", "2", "--starts", "2", "--messages", "1000"] if options.quick else []
    )
    worker = subprocess.run(
        [sys.executable, str(HERE / "gateway.py"), "--claw", options.claw, *sizes],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found["gateway"] = json.loads(worker.stdout)
    table, broken = markdown(found)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(table)
    print(table)
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
