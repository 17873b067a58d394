"""Sphinx's configuration, which `make docs` uses."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

import course_lib

project = "Build the Transformer"
author = "The Build the Transformer authors"
release = version = course_lib.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = project
html_math_renderer = "mathml"
html_css_files = ["lessons.css"]
html_js_files = ["scrolling.js"]
html_static_path = ["_static"]
html_copy_source = False

nb_execution_mode = "off"  # docs/lessons.py executes the lessons
nb_render_markdown_format = "myst"
nb_merge_streams = True  # lines that a cell prints one after the other are one output
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type", "misc.highlighting_failure"]

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "literal"  # docstrings write code in single backticks


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _name_levels(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Add the heading level that ARIA requires to the captions in the sidebar."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def _mark_code(
    _app: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Mark the indented examples in docstrings as code."""
    for number in reversed(range(2, len(lines))):
        before, blank, line = lines[number - 2 : number + 1]
        if line.startswith("    ") and not blank and not before.startswith(" "):
            lines[number:number] = ["::", ""]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Render formulas as MathML, which needs neither scripts nor the internet.

    Also add heading levels to the sidebar's captions, and mark the examples in docstrings as code.
    """
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("html-page-context", _name_levels, priority=900)  # after the theme has added its context
    app.connect("autodoc-process-docstring", _mark_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
