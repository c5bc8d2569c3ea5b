"""A page shows everything, needs nothing else, escapes what is the user's, and can be read aloud."""

import builtins
import re
from itertools import pairwise

import pytest

from html_pages import Page
from pnca.exceptions import MissingExtraError

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def page(cases):
    return Page(cases.to_html())


def test_page__loads_nothing(cases, page):
    text = cases.to_html()
    (policy,) = [tag["content"] for tag in page.all("meta") if "http-equiv" in tag]
    assert policy.startswith("default-src 'none'")
    addresses = [tag[name] for _, tag in page.tags for name in ("src", "href", "xlink:href") if name in tag]
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    assert not page.all("script", "link", "iframe", "object")
    assert not re.findall(r"url\((?!#)", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_page__has_unique_anchors_that_are_there(page):
    anchors = [tag["id"] for _, tag in page.tags if "id" in tag]
    assert len(set(anchors)) == len(anchors)
    linked = [tag["href"][1:] for _, tag in page.tags if tag.get("href", "").startswith("#")]
    referred = [tag["aria-labelledby"] for _, tag in page.tags if "aria-labelledby" in tag]
    assert set(linked + referred) <= set(anchors)


def test_page__can_be_read_aloud(cases, page):
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(tag["scope"] in ("col", "row") for tag in page.all("th"))
    assert all(tag["alt"] for tag in page.all("img"))
    assert all(tag.get("aria-hidden") == "true" for tag in page.all("svg"))  # tables say the same
    assert len(page.all("section")) == len(cases)


def test_page__escapes_what_is_the_users(of_table):
    text = of_table.to_html()
    assert "<script" not in text
    assert "&lt;script&gt;alert" in text
    assert "{{ 7 * 7 }}" not in text  # it is cut off, and was not computed
    assert not any("49" in said.split() for said in Page(text).texts)
    assert "<b>" not in text


def test_page__of_one_case_has_its_title(cases, tmp_path):
    text = cases[1].to_html(tmp_path / "case.html")
    assert (tmp_path / "case.html").read_text(encoding="utf-8") == text
    page = Page(text)
    assert len(page.all("section")) == 1
    assert any(said.startswith("Case 1: predicted") for said in page.texts)
    assert not page.all("nav")


def test_page__of_images_has_pictures_and_maps():
    from explanations.conftest import explained

    page = Page(explained("images")[0].to_html())
    assert len(page.all("img")) == 1 + 3 + 2
    captions = " ".join(tag["alt"] for tag in page.all("img"))
    assert "this case" in captions
    assert "unlike the named examples: at most" in captions


def test_page__has_a_dark_style_and_no_fixed_colour_in_its_figures(cases):
    text = cases[0].to_html()
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    figure = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--named)" in figure
    assert "#0102" not in text
    assert not set(re.findall(r"#[0-9a-f]{6}", figure)) - {"#000000"}


def test_page__without_jinja_names_the_extra(cases, monkeypatch):
    original = builtins.__import__

    def without(name, *others, **more):
        if name == "jinja2":
            raise ImportError(name)
        return original(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pnca\[report\]"):
        cases.to_html()
