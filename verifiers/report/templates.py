"""Jinja templates of pages, into which text from outside can bring neither markup nor controls."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from verifiers.report import units

LONGEST_TEXT = 20_000
"""A longer text is cut before it is given to a template."""


@cache
def page_template(path: Path, **filters: Callable[..., object]) -> jinja2.Template:
    """Return a template; one of HTML (`.html.j2`) escapes what is put into it.

    Args:
        path: of the file; it may include others of its folder.
        filters: further filters, by name, besides `count`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(path.parent),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
    )
    environment.filters.update(count=units.count, **filters)
    return environment.get_template(path.name)


def _printable(value: object) -> object:
    """Keep control characters out of the page; text of several lines keeps its lines."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(units.visible(line, LONGEST_TEXT + 20) for line in value.split("\n"))
