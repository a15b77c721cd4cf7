"""The colours of brokers, measured: apart for everybody, and legible under their numbers.

Colour blindness after Machado, Oliveira and Fernandes (2009), at full severity; distances in OKLab.
"""

import math
import re
from itertools import combinations
from pathlib import Path

import pytest

import verifiers.report

Colour = tuple[float, float, float]

VISIONS: dict[str, tuple[Colour, Colour, Colour]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def colours(selector: str) -> list[Colour]:
    """Read nine colours from the page's style, in linear light."""
    style = (Path(verifiers.report.__file__).parent / "page.css").read_text("utf-8")
    found = re.findall(rf"^{selector}([1-9]) {{ fill: #([0-9a-f]{{6}});", style, re.MULTILINE)
    assert [number for number, _ in found] == list("123456789")
    return [linear(text) for _, text in found]


def linear(text: str) -> Colour:
    red, green, blue = (int(text[n : n + 2], 16) / 255 for n in (0, 2, 4))
    return light(red), light(green), light(blue)


def light(share: float) -> float:
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def times(matrix: tuple[Colour, Colour, Colour], colour: Colour) -> Colour:
    one, two, three = (sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
    return one, two, three


def seen(colour: Colour, vision: str) -> Colour:
    one, two, three = (min(1.0, max(0.0, v)) for v in times(VISIONS[vision], colour))
    short, middle, long = times(TO_CONES, (one, two, three))
    return times(TO_LAB, (math.cbrt(short), math.cbrt(middle), math.cbrt(long)))


def luminance(colour: Colour) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_brokers_can_be_assigned_to_members(vision: str) -> None:
    brokers = [seen(colour, vision) for colour in colours(r"\.b")]

    nearest = min(math.dist(one, other) for one, other in combinations(brokers, 2))

    assert nearest > 0.14


def test_a_number_on_a_broker_is_legible() -> None:
    grounds, inks = colours(r"\.b"), colours(r"\.lane \.lab\.on")

    contrasts = []
    for ground, ink in zip(grounds, inks, strict=True):
        dark, bright = sorted((luminance(ground), luminance(ink)))
        contrasts.append((bright + 0.05) / (dark + 0.05))

    assert min(contrasts) >= 4.5
