"""Settings of the documentation site (``make docs``): Markdown pages, and every warning is an error."""

from connect_share import __version__

project = "connect-share"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_use_ivar = True  # attributes of dataclasses are there already
napoleon_include_special_with_doc = False
# Types in signatures are no links: most are of other libraries, or of ours that are not on a page.
nitpick_ignore_regex = [("py:.*", ".*")]
myst_heading_anchors = 4  # links to headings are checked, too
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_copyright = False
exclude_patterns = ["examples"]
