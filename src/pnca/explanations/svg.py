"""SVG that a strict content-security policy leaves as it is: no inline style, only attributes."""

from __future__ import annotations

import re

#: Properties of style that matplotlib writes and that are attributes of SVG as well.
_STYLE = re.compile(r'\sstyle="([^"]*)"')
_TAG = re.compile(r"<[a-z][^<>]*>")
_FONT = re.compile(r"(?:(bold|italic|\d00)\s+)?([\d.]+px)\s+(.*)")
_SHEET = re.compile(r"<style\b.*?</style>", flags=re.DOTALL)
#: What matplotlib's own style sheet says of every element; children inherit it.
_ROOT = ' stroke-linejoin="round" stroke-linecap="butt"'


def without_styles(svg: str) -> str:
    """Write the inline styles of a figure as attributes, which pages may have that forbid styles.

    >>> without_styles('<svg><text style="font: 9px Arial; fill: red">a</text></svg>')[51:]
    '<text font-size="9px" font-family="Arial" fill="red">a</text></svg>'
    """
    svg = _TAG.sub(lambda tag: _STYLE.sub(lambda found: _attributes(found[1]), tag[0]), _SHEET.sub("", svg))
    return re.sub(r"<svg\b", f"<svg{_ROOT}", svg, count=1)


def _attributes(style: str) -> str:
    """Declarations as attributes; the later of two of one name counts."""
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        name, is_there, value = (part.strip() for part in declaration.partition(":"))
        if is_there and name == "font" and (font := _FONT.fullmatch(value)):
            if font[1]:
                found["font-style" if font[1] == "italic" else "font-weight"] = font[1]
            found |= {"font-size": font[2], "font-family": font[3]}
        elif is_there:
            found[name] = value
    return "".join(f' {name}="{value}"' for name, value in found.items())
