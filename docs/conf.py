"""How the documentation is built: everything it needs is on this machine, and so is everything a reader needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import probpca

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "probpca"
author = "The probpca developers"
copyright = "The probpca developers, BSD-3-Clause"  # noqa: A001
release = version = probpca.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "mathml",
    "fields",
    "figures",
    "sphinx_gallery.gen_gallery",  # after the figures, whose settings of matplotlib it takes back
]
exclude_patterns = ["_build", "benchmarks", "_ext", "_templates", "gallery"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["probpca.css"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_update_mathjax = False

html_math_renderer = "mathml"  # formulas are part of the page: no script, no network

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
suppress_warnings = ["ref.python"]  # attributes of the same name, such as noise_variance_, in several estimators

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",  # made by every build, and not seen by git
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "write_computation_times": False,  # that page would ask the network for scripts
}

toc_object_entries_show_parents = "hide"  # "transform()" on the page of PPCA, not "PPCA.transform()"
html_theme = "pydata_sphinx_theme"
html_title = "probpca"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,  # one line at 1,400 pixels
    "header_dropdown_text": "More",
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("*", "examples/*")}  # pages that belong to no group have no list beside them
pygments_style = "friendly"


def show_plot(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the plots of the benchmarks under their tables, once they have been run."""
    texts = {"complete": "how many times as fast as scikit-learn", "missing": "seconds and distance to the optimum"}
    for name, text in texts.items():
        plot, table = f"benchmarks/{name}.png", f"```{{include}} benchmarks/{name}.md\n:heading-offset: 1\n```\n"
        if page == "benchmarks" and (Path(app.srcdir) / plot).exists():
            source[0] = source[0].replace(table, f"{table}\n```{{image}} {plot}\n:alt: {text}\n```\n")


def setup(app: Sphinx) -> None:
    """Connect what is specific to these pages."""
    app.connect("source-read", show_plot)
