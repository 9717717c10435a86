"""Hooks of `mkdocs build`.

- Add a reference page for each folder of the packages, from the docstrings of its modules.
- Replace links to files that are not pages by their paths.
- Replace link texts that are file names by the titles of the pages.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("core_srl", "srl_envs", "srl_agents", "srl_train", "srl_extensions")
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def folders(package: str) -> list[Path]:
    """Return the folders of a package that contain public modules."""
    inits = sorted((ROOT / package).rglob("__init__.py"))
    return [init.parent for init in inits if any(modules(init.parent))]


def modules(folder: Path) -> list[Path]:
    """Return the public modules of a folder, without generated ones."""
    return [
        path
        for path in sorted(folder.glob("*.py"))
        if not path.stem.startswith("_") and not path.stem.endswith("_pb2")
    ]


def page_of(folder: Path) -> str:
    """Return the path of the folder's reference page."""
    return f"reference/{folder.relative_to(ROOT).as_posix()}.md"


def dotted(path: Path) -> str:
    """Return the import name of a module or package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def reference(folder: Path) -> str:
    """Return the reference page of a folder as Markdown."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    parts = [f"# {dotted(folder)}", docstring or "", *(f"::: {dotted(m)}" for m in modules(folder))]
    return "\n\n".join(parts) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the reference pages to the navigation."""
    section: list[Any] = [
        {package: [{dotted(folder): page_of(folder)} for folder in folders(package)]}
        for package in PACKAGES
    ]
    for entry in config.nav or []:
        if "Reference" in entry:
            entry["Reference"] += section
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference pages to the site."""
    for package in PACKAGES:
        for folder in folders(package):
            files.append(File.generated(config, page_of(folder), content=reference(folder)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files outside docs/ by their paths, and file names by page titles."""
    here = ROOT / os.path.dirname(os.path.join("docs", page.file.src_uri))

    def replaced(link: re.Match[str]) -> str:
        text, target, heading = link[1], (here / link[2]).resolve(), link[3] or ""
        if not target.exists():
            return link[0]  # the strict build reports it
        if not target.is_relative_to(ROOT / "docs"):
            return f"`{target.relative_to(ROOT).as_posix()}`"
        if text == target.name and target.suffix == ".md":
            text = target.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{text}]({link[2]}{heading})"

    return LINK.sub(replaced, markdown)
