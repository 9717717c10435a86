"""HTML page of a document: one self-contained file with its own scripts."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from importlib.resources import files
from pathlib import Path

from srl_envs.untrusted import printable
from srl_train.metrics.document import Document, to_json
from srl_train.metrics.errors import RunFolderError
from srl_train.run_files import write_whole

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
{styles}
</head>
<body><main><noscript>This page is drawn by a script inside it, which the browser does not run.\
</noscript></main>
<script type="application/json" id="document">{document}</script>
<!-- The drawing of charts is uPlot's.
{licence}-->
{scripts}
</body>
</html>
"""

SCRIPTS = ("uPlot.iife.min.js", "page.js")
"""Scripts in order; the last one draws the document."""


def html(document: Document) -> str:
    """Return the page as text.

    The page's policy allows only the scripts and styles with these hashes and embedded pictures.
    Trusted Types prevent the scripts from creating HTML from text.
    """
    styles = [_asset("uPlot.min.css"), _asset("page.css")]
    scripts = [_asset(name) for name in SCRIPTS]
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hashes(styles)}; "
        f"script-src {_hashes(scripts)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return _PAGE.format(
        policy=policy,
        title=escape(printable(f"Core SRL: {document.title}"[:200], multiline=False)),
        styles="\n".join(f"<style>{one}</style>" for one in styles),
        document=to_json(document),
        licence=_asset("uPlot.LICENSE.txt"),
        scripts="\n".join(f"<script>{one}</script>" for one in scripts),
    )


def write(document: Document, path: Path) -> Path:
    """Write the page, whole or not at all. Raises RunFolderError if the file cannot be written."""
    try:
        write_whole(path, html(document))
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def _asset(name: str) -> str:
    return files("srl_train.metrics").joinpath("page_assets", name).read_text("utf-8")


def _hashes(texts: list[str]) -> str:
    """Return the hashes of inline scripts and styles for a Content-Security-Policy."""
    digests = (b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
