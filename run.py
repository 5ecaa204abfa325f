#!/usr/bin/env python3
"""Set claw up once, then run it.

    python3 run.py chat              any claw command, with its arguments
    python3 run.py test              the test suite; what follows goes to pytest
    python3 run.py docs              the manual as a site in build/site; what follows goes to mkdocs

Standard library only, so that it works on a bare Python 3.11 such as Debian's own: no ensurepip, no uv needed.
The first run creates ``.venv`` beside this file and installs core and every plugin into it, editable, at the
versions of ``constraints.txt``. A stamp in ``.venv`` records the inputs of the installation; while they match,
a run starts at once.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036  this file is what an older Python is started with
    sys.exit(
        f"claw needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}. "
        "Run it with a newer one: python3.11 run.py"
    )

ROOT = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
CFG = os.path.join(VENV, "pyvenv.cfg")
CONSTRAINTS = os.path.join(ROOT, "constraints.txt")
WORKSPACE = os.path.join(ROOT, "pyproject.toml")
FOLDERS = {
    "--cases": "--cases",
    "--fixtures": "--wire-fixtures",
}  # options with a folder, as our tests call them
# The whole suite in parallel; a few files are faster in one process. One process more than processors: tests also wait.
IN_PARALLEL = ["-n", str(min((os.cpu_count() or 1) + 1, 4)), "--dist", "loadgroup"]
# pip runs without prompts and advice, and without a machine's own settings that a venv refuses.
QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_NO_WARN_SCRIPT_LOCATION": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
}


def main(arguments):
    """Set up what is missing, then run claw, or pytest for ``test``, or mkdocs for ``docs``, in place of
    this process.
    """
    testing, writing = arguments[:1] == ["test"], arguments[:1] == ["docs"]
    try:
        prepare("claw", members)
        if testing:
            prepare("test", test_tools)
        if writing:
            prepare("docs", docs_tools)
    except KeyboardInterrupt:
        print("\nclaw: set-up interrupted; the next run takes it up again", file=sys.stderr)
        sys.exit(130)
    if testing:
        # A folder is relative to the caller; the tests are found from the root, wherever this was called.
        arguments = [os.path.abspath(word) if os.path.exists(word) else word for word in arguments[1:]]
        given, arguments = arguments, with_folders(arguments)
        os.chdir(ROOT)
        if not any(os.path.exists(word.partition("::")[0]) or word.startswith("-n") for word in given):
            arguments = [*IN_PARALLEL, *arguments]
    if writing:
        arguments = arguments[1:] or ["build"]
        os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # the theme's advice to switch to another program
        os.chdir(ROOT)
    # The script and not ``-m``, which would put the current folder in front of every import.
    script = os.path.join(VENV, "bin", "pytest" if testing else "mkdocs" if writing else "claw")
    os.execv(PYTHON, [PYTHON, script, *arguments])


def with_folders(words):
    """Join ``--cases DIR`` and ``--fixtures DIR`` to one word each: as two words, pytest takes the folder for
    test paths.

    ``--fixtures`` alone is pytest's own option; with a folder after it, it is ours.
    """
    kept, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, folder = word.partition("=")
        if name not in FOLDERS:
            kept.append(word)
            continue
        if not equals and rest and not rest[0].startswith("-"):
            equals, folder = "=", rest.pop(0)
        if os.path.isdir(folder):
            kept.append(f"{FOLDERS[name]}={os.path.abspath(folder)}")
        elif name == "--fixtures" and os.path.exists(folder.partition("::")[0] or ROOT):
            kept += [word, folder] if folder else [word]
        else:
            print(f"claw: {name} takes a folder, and {folder or 'nothing'} is none", file=sys.stderr)
            sys.exit(2)
    return kept


def prepare(purpose, requirements):
    """Install for ``purpose`` unless its stamp matches. Of two first runs at once, one waits."""
    stamp = os.path.join(VENV, f"run-{purpose}.stamp")
    if read(stamp) == fingerprint(purpose):
        return
    import fcntl

    lock = os.open(ROOT, os.O_RDONLY)  # the folder itself: nothing to create, freed when this process ends
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is setting up; waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if read(stamp) != fingerprint(purpose):
            install(stamp, purpose, requirements)
    finally:
        os.close(lock)


def install(stamp, purpose, requirements):
    """Create or repair the venv, install into it, and only then write the stamp."""
    place = VENV if os.path.exists(VENV) else ROOT
    if not os.access(place, os.W_OK):
        sys.exit(
            f"claw: {place} cannot be written, and the first run sets up .venv there. "
            "Copy this folder to a place of your own and run it there."
        )
    if not healthy():
        say("first run: making .venv ...")
        make_venv()
    elif os.path.exists(stamp):
        os.remove(stamp)
    tool = installer()
    wanted = requirements()
    count = sum(word != "-e" for word in wanted)
    say(f"installing {count} packages ({purpose}) and what they need; this is done once ...")
    if purpose == "claw":  # builds all members; it is installed first, and the tests reuse it
        run([*tool, "flit_core", "-c", CONSTRAINTS])
    run([*tool, "--no-build-isolation", *wanted, "-c", CONSTRAINTS])
    with open(stamp + ".new", "w", encoding="utf-8") as file:
        file.write(fingerprint(purpose))
    os.replace(stamp + ".new", stamp)


def members():
    """Return core and every plugin, for one command, so that each finds its sibling here and not on the
    index.
    """
    return [word for folder in member_folders() if not for_tests(folder) for word in ("-e", folder)]


def test_tools():
    """Return the group ``dev``, and our pytest plugin."""
    return group("dev") + [
        word for folder in member_folders() if for_tests(folder) for word in ("-e", folder)
    ]


def docs_tools():
    return group("docs")


def group(name):
    """Return the names under ``[dependency-groups]``: Debian's pip is too old to read groups."""
    import tomllib

    with open(WORKSPACE, "rb") as file:
        return tomllib.load(file)["dependency-groups"][name]


def for_tests(folder):
    """Return true if a member is a pytest plugin, which a first chat does not need."""
    return "pytest11" in read(os.path.join(folder, "pyproject.toml"))


def member_folders():
    folders = [os.path.join(ROOT, "core")]
    for parent in (os.path.join(ROOT, "sdk"), os.path.join(ROOT, "plugins")):
        if os.path.isdir(parent):
            folders += [os.path.join(parent, name) for name in sorted(os.listdir(parent))]
    return [folder for folder in folders if os.path.exists(os.path.join(folder, "pyproject.toml"))]


def fingerprint(purpose):
    """Return the inputs of an install: its location, the venv's Python, the pins and the requirements of
    each member.
    """
    import hashlib

    files = [CONSTRAINTS, CFG, *([WORKSPACE] if purpose != "claw" else [])]
    wanted = [
        folder
        for folder in member_folders()
        if purpose != "docs" and for_tests(folder) == (purpose == "test")
    ]
    files += [os.path.join(folder, "pyproject.toml") for folder in wanted]
    parts = [ROOT, os.path.realpath(PYTHON), *(f"{name}\n{read(name)}" for name in files)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def healthy():
    """Return true if the venv's Python starts, is new enough, and is still the one the venv was made with."""
    import subprocess

    if not os.path.exists(PYTHON):
        return False
    probe = "import sys; print('%d.%d.' % sys.version_info[:2] if sys.version_info >= (3, 11) else 'too old')"
    told = subprocess.run([PYTHON, "-I", "-c", probe], check=False, capture_output=True, text=True)
    made_with = [
        line.partition("=")[2].strip() for line in read(CFG).splitlines() if line.startswith("version")
    ]
    return told.returncode == 0 and any(version.startswith(told.stdout.strip()) for version in made_with)


def make_venv():
    from importlib.util import find_spec

    if find_spec("venv") is None:
        sys.exit("claw: this Python has no venv. On Debian or Ubuntu: apt install python3-venv")
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV])


def installer():
    """Return the start of an install command for the venv: uv if it is on the PATH, else the pip of this
    Python.
    """
    import shutil
    from importlib.util import find_spec

    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", PYTHON]
    quiet = ["install", "-q", "-q"]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--python", PYTHON, *quiet]
    if find_spec("ensurepip") is not None:
        run([PYTHON, "-m", "ensurepip"])
        return [PYTHON, "-m", "pip", *quiet]
    sys.exit("claw: this Python has no pip. On Debian or Ubuntu: apt install python3-pip")


def run(command):
    """Run one step without output; when it fails, print its output."""
    import subprocess

    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, **QUIET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        print(done.stdout.strip(), file=sys.stderr)
        sys.exit(
            "claw: set-up failed at the step above. Is the network there? Run the same command to try again."
        )


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def say(text):
    print(f"claw: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
