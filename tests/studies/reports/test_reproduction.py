import re
from collections import Counter
from pathlib import Path

import pytest

from pnca.exceptions import InvalidInputError
from pnca_studies.reports.claims import CLAIMS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from pnca_studies.reports.reproduction import write_reproduction
from runs import Skill, covid_run, mnist_run

ABLATION = (
    *("PNCA (paper)", "100 d features", "30 d features", "exact", "exact + background .1"),
    *("independent", "exact independent", "exact + background .1 independent"),
)
NO_SECTION = {"none", "this number alone"}  # what a claim may be shown in besides a section
DOCS = Path(__file__).parents[2] / "docs"


def _skills(columns, test_set):
    repetition = columns.get("draw", columns.get("trial"))
    return Skill(accuracy=0.7 + 0.1 * repetition, sure=0.25, sure_accuracy=0.8)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each study, the ablation first: the document has its own order."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "ablation": mnist_run(folder / "ablation", _skills, models=ABLATION, study="ablation"),
        "covid": covid_run(folder / "covid", _skills, folds=1),
        "mnist": mnist_run(folder / "mnist", _skills, sizes=(100, 200, 400)),
    }


@pytest.fixture(scope="module")
def document(runs, tmp_path_factory):
    """The document on all runs, in a folder that it has to make."""
    return write_reproduction(list(runs.values()), tmp_path_factory.mktemp("documents") / "docs" / "paper.md")


def _anchor(heading):
    """The anchor that GitHub makes of a heading."""
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_reproduction__links_resolve(document):
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]*)\)", text)
    anchors = [link for link in links if link.startswith("#")]
    assert anchors
    assert set(anchors) <= {_anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    pictures = [link for link in links if link.endswith(".png")]
    assert pictures
    for link in pictures:
        assert (document.parent / link).read_bytes().startswith(b"\x89PNG")
    # What is not a picture lies beside the document in docs/.
    for link in set(links) - set(pictures) - set(anchors):
        assert (DOCS / link).is_file()


def test_reproduction__writes_the_document_and_its_pictures_and_nothing_else(document):
    files = {path.relative_to(document.parent).as_posix() for path in document.parent.rglob("*.*")}
    links = re.findall(r"\]\(([^)]*\.png)\)", document.read_text(encoding="utf-8"))
    assert files == {"paper.md", *links}


def test_reproduction__summary_counts_the_verdicts(document, runs):
    text = document.read_text(encoding="utf-8")
    counts = Counter(judge(claim, runs).status for claim in CLAIMS)
    summary = (
        f"Of {len(CLAIMS)}: {counts[CONFIRMED]} confirmed, {counts[NOT_CONFIRMED]} not confirmed, "
        f"{counts[NOT_TESTABLE]} not testable here."
    )
    assert summary in text
    for status in (CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE):
        assert len(re.findall(rf"^   \*\*{status.capitalize()}\.\*\*", text, re.MULTILINE)) == counts[status]
    assert counts[CONFIRMED]
    assert counts[NOT_CONFIRMED]


def test_reproduction__lists_every_claim_with_its_criterion(document, runs):
    text = document.read_text(encoding="utf-8")
    for i, claim in enumerate(CLAIMS, start=1):
        verdict = judge(claim, runs)
        shown_in = claim.exhibit
        if shown_in not in NO_SECTION:
            shown_in = f"[{shown_in}]({_anchor(shown_in)})"
        assert (
            f"{i}. **{claim.text}** ({claim.source})  \n"
            f"   **{verdict.status.capitalize()}.** {verdict.finding}  \n"
            f"   *Criterion:* {claim.criterion} *Shown in:* {shown_in}.\n"
        ) in text


def test_reproduction__what_a_claim_is_shown_in_is_a_heading(document):
    headings = set(re.findall(r"^## (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE))
    shown = {claim.exhibit for claim in CLAIMS} - NO_SECTION
    assert shown <= headings


def test_reproduction__studies_come_in_the_papers_order(document):
    text = document.read_text(encoding="utf-8")
    titles = re.findall(r"^## (\w+): how these numbers were made$", text, re.MULTILINE)
    assert titles == ["mnist", "covid", "ablation"]
    commands = re.findall(r"^pnca .*$", text, re.MULTILINE)
    assert commands == [
        "pnca reproduce mnist --data-dir DATA",
        "pnca reproduce covid --data-dir DATA",
        "pnca reproduce ablation --data-dir DATA",
        f"pnca report pnca-mnist pnca-covid pnca-ablation --out {document.as_posix()}",
    ]


def test_reproduction__of_one_study_leaves_the_other_claims_open(tmp_path, runs):
    document = write_reproduction([runs["covid"]], tmp_path / "covid.md")
    text = document.read_text(encoding="utf-8")
    n_open = sum(judge(claim, {"covid": runs["covid"]}).status == NOT_TESTABLE for claim in CLAIMS)
    assert n_open >= sum(claim.study != "covid" for claim in CLAIMS)
    assert f"{n_open} not testable here." in text
    assert "Figure 2" not in re.findall(r"^## .*$", text, re.MULTILINE)


def test_reproduction__a_second_one_is_the_same(tmp_path, runs):
    document = write_reproduction([runs["covid"]], tmp_path / "covid.md")
    first = document.read_bytes()
    assert write_reproduction([runs["covid"]], tmp_path / "covid.md") == document
    assert document.read_bytes() == first


def test_reproduction__in_the_current_folder(tmp_path, monkeypatch, runs):
    monkeypatch.chdir(tmp_path)
    document = write_reproduction([runs["covid"]], Path("covid.md"))
    text = document.read_text(encoding="utf-8")
    (link,) = re.findall(r"\]\(([^)]*\.png)\)", text)
    assert (tmp_path / link).is_file()
    assert "pnca report pnca-covid --out covid.md\n" in text


@pytest.mark.parametrize("name", ["paper.html", "paper", "md"])
def test_reproduction__refuses_another_format(tmp_path, runs, name):
    with pytest.raises(InvalidInputError, match=rf"^{re.escape(name)} must end in \.md"):
        write_reproduction([runs["covid"]], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_reproduction__refuses_two_runs_of_one_study(tmp_path, runs):
    with pytest.raises(InvalidInputError, match="same study"):
        write_reproduction([runs["covid"], runs["mnist"], runs["covid"]], tmp_path / "paper.md")
    assert list(tmp_path.iterdir()) == []


def test_reproduction__of_a_quick_run(tmp_path):
    """Two draws of 100 images, as ``--quick`` has them."""
    run = mnist_run(tmp_path / "run", _skills, angles=(0, 60))
    text = write_reproduction([run], tmp_path / "quick.md").read_text(encoding="utf-8")
    assert "## MNIST by angle of rotation" in text
