"""How Sphinx builds the site: ``make docs`` writes it to ``build/site``, with warnings as errors and offline.

Sphinx with furo rather than MkDocs Material with mkdocstrings: the docstrings are numpydoc with reST roles
and ``.. math::`` directives, which autodoc reads as they stand, while mkdocstrings would show them as raw
text; a reference that leads nowhere is a warning; sphinx-gallery runs the examples while it builds; and furo
needs neither remote fonts nor remote scripts. The guides are Markdown (MyST) and read well without the site.
"""

import re
from typing import Any

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx_gallery.sorting import ExplicitOrder

from pnca import __version__

project = "pnca"
author = "the authors of pnca"
project_copyright = "MIT licence"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
nitpicky = True  # a name in a docstring that is not on this site is an error
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|torch|numpy)\..*")
]  # other libraries: no network to look them up

# Guides
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_fence_as_directive = ["math"]  # the fence that repositories render, too
myst_heading_anchors = 4

# API
add_module_names = False
autosummary_generate = False
autodoc_typehints = "none"  # numpydoc has them, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # methods are named on the page

# Gallery, in this order
examples = ["own_arrays", "decisions", "images", "patients", "own_module", "large_data", "pipeline"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # run them all
    "within_subsection_order": ExplicitOrder([f"{name}.py" for name in examples]),
    "capture_repr": (),
    "show_signature": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "image_scrapers": ("matplotlib",),
}

# Pages
html_theme = "furo"
html_title = "pnca"
html_static_path = ["_static"]
html_css_files = ["pnca.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

#: Functions without limits: TeX leaves a thin space between them and a letter on either side.
_FUNCTION = r"<mi>(?:log|exp|clip)</mi>"
_THIN = '<mspace width="0.17em"/>'
_LOGGER = logging.getLogger(__name__)


def mathml(formula: str, display: str) -> str:
    """Translate a formula of LaTeX to MathML, which browsers render without a script."""
    known = formula.strip().replace("\\arg\\", "\\operatorname{arg}\\")
    converted = latex2mathml.converter.convert(known, display=display)
    if "\\" in converted:
        _LOGGER.warning("a command that latex2mathml does not know: %s", formula)
    converted = re.sub(rf"({_FUNCTION})(?=<m(?:i|sub|sup|subsup|frac)>)", rf"\1{_THIN}", converted)
    return re.sub(rf"(</m(?:i|n|sub|sup|frac)>)(?={_FUNCTION})", rf"\1{_THIN}", converted)


def visit_math(translator: Any, node: nodes.math) -> None:  # noqa: ANN401
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_math_block(translator: Any, node: nodes.math_block) -> None:  # noqa: ANN401
    """Write a formula on a line of its own, which scrolls where the screen is narrow."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(mathml(node.astext(), "block") + "</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
