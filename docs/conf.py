"""Settings of Sphinx: ``sphinx-build -W -b html docs docs/_build/html`` builds the pages."""

import sys
from importlib.util import find_spec
from pathlib import Path

import finitesum

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "finitesum"
author = "The finitesum authors"
copyright = author
version = release = finitesum.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "math_for_browsers",
    "beside",
    "tables",
    "benchmark_pages",
    "rooms",
    "chart",
    "formulas",
    "plain_text",
]
exclude_patterns = ["_build", "extend/*.py"]
templates_path = ["_templates"]
default_role = "py:obj"  # a name in backticks is a link where there is something to link to
smartquotes = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "subsection_order": [f"../examples/gallery/{name}" for name in ("statistics", "penalties", "sets", "methods")],
    "within_subsection_order": "FileNameSortKey",
    "show_signature": False,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 3600,
}

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_mock_imports = [name for name in ("jax", "optax", "lightning", "transformers") if find_spec(name) is None]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "finitesum"
html_static_path = ["_static"]
html_css_files = ["beside.css"]
html_show_sourcelink = False
html_math_renderer = "browsers"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    # pages with code beside equations need the room
    "secondary_sidebar_items": {f"{folder}/**": ["page-toc"] for folder in ("guide", "results", "extend", "api")},
}
html_sidebars = {"index": []}
