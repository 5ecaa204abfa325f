"""Storms of many seeds side by side, and the sum of their results: 100 seeds of 100 kills are the large run."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigs.nursery import Nursery
from rigs.platform_rig.judge import Verdict
from rigs.platform_rig.report import document
from rigs.platform_rig.storm import Plan, run
from rigs.platform_rig.world import Setting

STORMS_PER_CPU = 5
"""Storms side by side: a life mostly waits, and takes 0.1 to 0.2 of a processor."""

Outcome = tuple[Verdict, dict[str, Any]]


@asynccontextmanager
async def nursery_in(folder: Path) -> AsyncIterator[Nursery]:
    """Start a process that forks gateways, in a folder that exists."""
    environ = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "CLAW_HOME": str(folder / "no-home"),
        "LANG": "C.UTF-8",
    }
    async with Nursery(folder, environ, folder / "nursery-said") as nursery:
        yield nursery


def seeds_of(text: str) -> list[int]:
    """Return the numbers of ``0-9,12``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def read_lines(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the results in files that ``run_seeds`` wrote; a last line that was cut is left out."""
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    found: list[dict[str, Any]] = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def commit() -> str:
    """Return the commit of this checkout; empty outside of one."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


async def run_seeds(
    seeds: Sequence[int],
    setting: Setting,
    plan: Plan,
    file: Path | None,
    *,
    jobs: int = 0,
    folder: Path | None = None,
    tell: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Run a storm for each seed that ``file`` does not have yet; append one JSON line for each; return their results.

    :param jobs: storms side by side; 0 = by the number of processors.
    :param folder: keeps the homes; None = they are deleted.
    """
    done = {(one["run"]["seed"], one["run"]["kills"]) for one in read_lines([file] if file else [])}
    slots = asyncio.Semaphore(jobs or STORMS_PER_CPU * (os.cpu_count() or 1))
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="platform-rig-", ignore_cleanup_errors=True) as scratch:
        base = folder or Path(scratch)
        base.mkdir(parents=True, exist_ok=True)

        async def one(seed: int, nursery: Nursery | None) -> None:
            async with slots:
                began = time.monotonic()
                try:
                    verdict, facts = await run(
                        base / f"seed-{seed}", replace(setting, seed=seed), plan, nursery
                    )
                except Exception as broken:
                    tell(f"seed {seed}: the rig failed: {type(broken).__name__}: {broken}")
                    return
                result = document(verdict, {**facts, "commit": commit()})
                results.append(result)
                if file:
                    with file.open("a") as lines:
                        lines.write(json.dumps(result, ensure_ascii=False) + "\n")
                tell(f"seed {seed}: {time.monotonic() - began:.0f} s, broken: {verdict.broken or 'nothing'}")

        todo = [seed for seed in seeds if (seed, plan.kills) not in done]
        if setting.python:  # another claw: every gateway imports its own
            await asyncio.gather(*(one(seed, None) for seed in todo))
        else:
            async with nursery_in(base) as nursery:
                await asyncio.gather(*(one(seed, nursery) for seed in todo))
    return results


def total(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of results."""
    runs, counts, moments, injected, notices = 0, *(Counter[str]() for _ in range(4))
    kills, commits = 0, set[str]()
    broken: dict[str, list[str]] = {}
    for one in results:
        runs, kills = runs + 1, kills + one["run"]["kills"]
        commits.add(one["run"].get("commit", ""))
        counts.update(one["counts"])
        moments.update(one["run"]["moments"])
        injected.update(one["run"]["injected"])
        notices.update(one["notices"])
        for name in one["broken"]:
            found = one["examples"].get(name, ["counted"])
            broken.setdefault(name, []).extend(f"seed {one['run']['seed']}: {text}" for text in found)
    return {
        "runs": runs, "kills": kills, "commits": sorted(commits), "moments": dict(moments), "injected": dict(injected),
        "counts": dict(sorted(counts.items())), "notices": dict(notices.most_common()), "broken": broken,
    }  # fmt: skip
