"""The templates of the report's page. They escape every text that code does not mark as safe."""

import base64
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from cosearch.report.words import slug

PAGE = files("cosearch.report") / "page"
"""The folder of templates, styles, words and the script."""

TEMPLATES = Environment(
    loader=PackageLoader("cosearch.report", "page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "base64": lambda text: base64.b64encode(text.encode("utf-8")).decode("ascii"),
    "slug": slug,
}
