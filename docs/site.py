"""A hook of MkDocs (``mkdocs.yml``): files beside ``docs`` become pages too, under their path in the
repository.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/*.md",
    "plugins/*/README.md",
    "examples/*/*.md",
    "examples/*/*.py",
    "examples/*/tests/*.py",
    "examples/policy/*.yaml",
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files beside ``docs``."""
    for path in sorted(path for pattern in BESIDE for path in ROOT.glob(pattern)):
        source = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, source, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt links of the repository: ``docs`` is the root of the site, and a folder shows its README."""
    if page.file.generated_by:
        markdown = re.sub(r"\]\(((?:\.\./)*)docs/", r"](\1", markdown)
    else:
        markdown = re.sub(r"\]\(\.\./", "](", markdown)
    folder = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        if target == "README.md":  # the page of the repository; the site has its own start page
            return f"]({posixpath.relpath('index.md', folder)})"
        return f"]({link[1]}/README.md)" if files.get_file_from_path(f"{target}/README.md") else link[0]

    return re.sub(r"\]\(([\w./-]+)\)", led, markdown)
