"""Settings of the documentation site (``make docs``): Markdown pages, and every warning is an error."""

from connect_share import __version__

project = "connect-share"
release = __version__
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links to headings are checked, too
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_copyright = False
exclude_patterns = ["examples"]
