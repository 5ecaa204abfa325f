"""Run the rig from the command line."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from rigs.platform_rig.large_scenes import LARGE_SCENES, SAMPLE_SCENES
from rigs.platform_rig.report import dumps, exit_code, table
from rigs.platform_rig.scenes import SCENES, play
from rigs.platform_rig.storm import Plan, run
from rigs.platform_rig.world import CHANNELS, Setting


async def _scenes(word: str, folder: Path, python: str) -> int:
    """Play scenes one after another; return the highest exit code."""
    code = 0
    for at, (name, scene) in enumerate({**SCENES, **SAMPLE_SCENES, **LARGE_SCENES}.items()):
        if word in name:
            verdict, _ = await play(scene, folder / f"scene-{at}", python)
            print(table(verdict, {"scene": name}), end="\n\n", flush=True)
            code = max(code, exit_code(verdict))
    return code


def main() -> int:
    """Run, print the table, write the JSON document; return the exit code."""
    options = argparse.ArgumentParser(prog="python -m rigs.platform_rig", description=__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--channels", default=",".join(CHANNELS), help="of telegram,http,discord")
    options.add_argument("--queue", choices=("followup", "collect", "steer"), default="followup")
    options.add_argument("--no-faults", action="store_true", help="kills alone; no line breaks")
    options.add_argument("--python", default="", help="interpreter that has the claw to try")
    options.add_argument("--folder", type=Path, help="new folder for home and output; it is kept")
    options.add_argument("--json", type=Path, help="file for the JSON document")
    options.add_argument(
        "--scenes", metavar="WORD", help="play the scenes with this word in their name instead"
    )
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="platform-rig-"))
    if given.scenes is not None:
        return asyncio.run(_scenes(given.scenes, folder, given.python))
    setting = Setting(
        seed=given.seed, channels=tuple(given.channels.split(",")), queue=given.queue,
        faults=not given.no_faults, python=given.python,
    )  # fmt: skip
    verdict, facts = asyncio.run(run(folder / "run", setting, Plan(kills=given.kills)))
    print(table(verdict, facts))
    if given.json:
        given.json.write_text(dumps(verdict, facts))
    return exit_code(verdict)


if __name__ == "__main__":
    sys.exit(main())
