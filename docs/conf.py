"""The site: `make docs`. Sources are the Markdown files of the repository, from its top folder."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "kinesym"
author = "the kinesym developers"
copyright = author
version = release = installed("kinesym")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docstrings",
    "formulas",
    "gallery_pages",
    "record_pages",
]
# Links between files are then the same here and where the repository is read.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "README.md",
    "benchmarks/README.md",
    "benchmarks/records/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "results", "tests", "bench_report", "**/__pycache__"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
suppress_warnings = ["myst.header"]  # a page that is a part of the README of a folder

default_role = "code"
autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
copybutton_exclude = ".linenos, .gp, .go"

nitpicky = True

html_theme = "furo"
html_title = "kinesym"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["kinesym.css"]
html_js_files = ["kinesym.js"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
