"""The templates of the pages that matrices end in."""

from pathlib import Path

import jinja2


def page_template(name: str) -> jinja2.Template:
    """Return a template of this folder; what it is given is escaped, and nothing may be missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)
