"""Figures need no inline style: a strict policy of a page leaves them as they are."""

import re

from pnca.explanations.pages import page_of, parts_of
from pnca.explanations.svg import without_styles


def test_figures__have_no_inline_styles(cases):
    for figure in parts_of(cases[0])["figures"].values():
        assert " style=" not in figure
        assert "<style" not in figure
        assert "var(--" in figure
        assert re.search(r'font-size="\d', figure)
    assert " style=" not in page_of(cases)


def test_without_styles__text_that_looks_like_one_stays():
    svg = '<svg><text style="fill: red">a style="fill: blue" b</text></svg>'
    assert 'fill="red">a style="fill: blue" b<' in without_styles(svg)


def test_without_styles__fonts_are_taken_apart():
    for style, expected in (
        (
            "font: bold 9px 'A B', serif",
            {'font-weight="bold"', 'font-size="9px"', "font-family=\"'A B', serif\""},
        ),
        ("font: 7.5px A; text-anchor: end", {'font-size="7.5px"', 'font-family="A"', 'text-anchor="end"'}),
        ("fill: none;;stroke:#fff", {'fill="none"', 'stroke="#fff"'}),
    ):
        found = without_styles(f'<svg><g style="{style}"/></svg>')
        assert all(part in found for part in expected)
        assert "style" not in found
