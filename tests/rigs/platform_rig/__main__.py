"""Run the rig from the command line."""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rigs.platform_rig.aiogram_judge import judge_files
from rigs.platform_rig.large_scenes import LARGE_SCENES, SAMPLE_SCENES
from rigs.platform_rig.report import dumps, exit_code, table
from rigs.platform_rig.scenes import SCENES, play
from rigs.platform_rig.seeds import read_lines, run_seeds, seeds_of, total
from rigs.platform_rig.storm import Plan, run
from rigs.platform_rig.world import CHANNELS, RECORDS, Setting


async def _scenes(word: str, folder: Path, python: str) -> int:
    """Play scenes one after another; return the highest exit code."""
    code = 0
    for at, (name, scene) in enumerate({**SCENES, **SAMPLE_SCENES, **LARGE_SCENES}.items()):
        if word in name:
            verdict, _ = await play(scene, folder / f"scene-{at}", python)
            print(table(verdict, {"scene": name}), end="\n\n", flush=True)
            code = max(code, exit_code(verdict))
    return code


def _print_total(results: list[dict[str, Any]]) -> int:
    """Print the sum of results; return the exit code."""
    found = total(results)
    print(json.dumps(found, indent=2, ensure_ascii=False))
    return 1 if found["broken"] else 0


async def _seeds(seeds: list[int], setting: Setting, given: argparse.Namespace) -> int:
    """Run a storm for each seed; print the sum, the time and the processor time."""
    began = time.monotonic()
    results = await run_seeds(
        seeds, setting, Plan(kills=given.kills), given.json, jobs=given.jobs, folder=given.folder
    )
    code, seconds = _print_total(results), time.monotonic() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu, kills = sum(one.ru_utime + one.ru_stime for one in used), len(results) * given.kills
    print(f"{kills} kills in {seconds:.0f} s with {cpu:.0f} s of processors", file=sys.stderr)
    return code if len(results) == len(seeds) or given.json else 2


def main() -> int:
    """Run, print the table, write the JSON document; return the exit code."""
    options = argparse.ArgumentParser(prog="python -m rigs.platform_rig", description=__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--seeds",
        type=seeds_of,
        help="0-9,12: a storm of --kills for each, side by side; a forked start is the rule",
    )
    options.add_argument("--jobs", type=int, default=0, help="storms side by side; 0 = 5 for each processor")
    options.add_argument(
        "--sum", type=Path, nargs="+", metavar="FILE", help="print the sum of files of --json"
    )
    options.add_argument(
        "--channels", default=",".join(CHANNELS), help="of telegram,http,discord,webhook,feishu"
    )
    options.add_argument("--queue", choices=("followup", "collect", "steer"), default="followup")
    options.add_argument("--no-faults", action="store_true", help="kills alone; no line breaks")
    options.add_argument("--python", default="", help="interpreter that has the claw to try")
    options.add_argument(
        "--aiogram", type=Path, help="interpreter that has aiogram: it judges a run or scenes"
    )
    options.add_argument("--folder", type=Path, help="new folder for home and output; it is kept")
    options.add_argument(
        "--json",
        type=Path,
        help="file for the JSON document; with --seeds one line for each seed is appended, and seeds in it are left out",
    )
    options.add_argument(
        "--scenes", metavar="WORD", help="play the scenes with this word in their name instead"
    )
    given = options.parse_args()
    if given.sum:
        return _print_total(read_lines(given.sum))
    if given.seeds is None or given.aiogram:
        given.folder = given.folder or Path(tempfile.mkdtemp(prefix="platform-rig-"))
    code = _run(given)
    return max(code, _by_aiogram(given.aiogram, given.folder) if given.aiogram else 0)


def _by_aiogram(python: Path, folder: Path) -> int:
    """Let aiogram judge all records in a folder; return the exit code."""
    count, wrong = judge_files(python, sorted(folder.rglob(RECORDS)))
    print(f"aiogram has read {count} records", *wrong, sep="\n  ")
    return 1 if wrong else 0


def _run(given: argparse.Namespace) -> int:
    """Run what the command line says; return the exit code."""
    folder: Path = given.folder
    if given.scenes is not None:
        return asyncio.run(_scenes(given.scenes, folder, given.python))
    setting = Setting(
        seed=given.seed, channels=tuple(given.channels.split(",")), queue=given.queue,
        faults=not given.no_faults, python=given.python,
    )  # fmt: skip
    if given.seeds is not None:
        return asyncio.run(_seeds(given.seeds, setting, given))
    verdict, facts = asyncio.run(run(folder / "run", setting, Plan(kills=given.kills)))
    print(table(verdict, facts))
    if given.json:
        given.json.write_text(dumps(verdict, facts))
    return exit_code(verdict)


if __name__ == "__main__":
    sys.exit(main())
