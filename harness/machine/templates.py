"""The Compose templates: a cluster of ours, and the fault agent beside any cluster."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
import yaml

from harness.machine.images import compose_folder

# That of libyaml is ten times as fast, and PyYAML may have been built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def rendered(name: str, **values: object) -> str:
    """Return the text of a template in `compose/` with its values filled in."""
    return _templates().get_template(name).render(values)


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(compose_folder()),
        undefined=jinja2.StrictUndefined,
        # The text is YAML for a machine, not HTML; nothing in it comes from outside but numbers,
        # names of ours, and properties without line breaks.
        autoescape=False,  # noqa: S701
        keep_trailing_newline=True,
    )


def read_yaml(text: str) -> Any:  # noqa: ANN401 (what the text says)
    """Return what a text says.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 (it is a safe one)


def agent_service(container: str, *, image: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the fault agent as a service of a Compose file.

    Args:
        container: name of its container.
        image: its image.
        labels: for everything that the run makes.
    """
    text = rendered("agent.yaml.j2", agent=container, agent_image=image, labels=dict(labels))
    service: dict[str, Any] = read_yaml(text)
    return service
