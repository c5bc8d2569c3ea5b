"""The pages of ranks, tables, differences and losses."""

import re

import pytest

from benchmark_runs import FEW, SMALL, at, cells, document, row_of, run, section, tables
from pnca_studies.experiments.contenders import CONTENDERS, ON_IMAGES, TRIVIAL
from pnca_studies.reports.benchmark import write_benchmark


def test_ranks__of_the_document(whole):
    text = section(whole.read_text(encoding="utf-8"), "## Mean ranks")
    over_data, images = tables(text)
    classifiers = [model for model in CONTENDERS if model not in TRIVIAL]
    assert {row["model"].strip("*") for row in over_data} == set(classifiers)
    assert {row["model"].strip("*") for row in images} == set(ON_IMAGES) - set(TRIVIAL)
    assert over_data[0]["model"] == images[0]["model"] == "**PNCA**"
    assert set(over_data[0].values()) == {"**PNCA**", "1.00"}
    # Sixteen others are alike and share ranks 2 to 17; only DNN, by confidence alone, is behind in OoD AUROC.
    assert row_of(over_data, "k-NN")["NLL"] == row_of(over_data, "DNN")["NLL scaled"] == "9.50"
    assert row_of(over_data, "k-NN")["OoD AUROC by own score"] == "9.00"
    assert row_of(over_data, "DNN")["OoD AUROC by own score"] == "17.00"
    assert "MNIST, COVID, digits, breast cancer, wine and iris" in " ".join(text.split())
    assert "MNIST images is not among them" in text


def test_ranks__leave_out_whoever_was_not_everywhere(tmp_path):
    given = [
        c
        for c in cells(places=SMALL, models=FEW)
        if (c.columns["data"], c.columns["model"]) != ("iris", "k-NN")
    ]
    path = write_benchmark([run(tmp_path / "run", given)], tmp_path / "part.md")
    text = section(path.read_text(encoding="utf-8"), "## Mean ranks")
    assert [row["model"] for row in tables(text)[0]] == ["**PNCA**", "RBF-SVM"]
    assert "Left out because fits are missing: k-NN." in text


def test_tables__numbers_are_those_of_the_rows(tmp_path):
    scaled = {"nll": 0.123, "ece": 0.045}
    text = document(tmp_path, at("wine", 50, "k-NN", "test, scaled", **scaled), places=SMALL, models=FEW)
    (table,) = tables(section(text, "### wine"))
    assert row_of(table, "PNCA") == {
        "model": "**PNCA**",
        "accuracy": ".895 ± .007",
        "AUROC": ".950 ± .000",
        "NLL": ".300 ± .000",
        "NLL scaled": ".270 ± .000",
        "Brier": ".150",
        "ECE": ".020",
        "ECE scaled": ".016",
        "AUGRC": ".010",
        "OoD AUROC by confidence": ".992",
        "OoD AUROC by own score": ".997",
        "FPR95": ".003",
        "OoD above .9": "0.10 %",
        "fit s": "2.00",
        "predict s": ".50",
    }
    changed = row_of(table, "k-NN")
    assert (changed["NLL"], changed["NLL scaled"]) == (".500 ± .000", ".123 ± .000")
    assert (changed["ECE"], changed["ECE scaled"]) == (".050", ".045")


def test_tables__trivial_scores_are_no_classifiers(whole):
    text = whole.read_text(encoding="utf-8")
    found = [t for data in ("MNIST", "COVID", "wine") for t in tables(section(text, f"### {data}"))]
    assert len(found) == 5
    for table in found:
        assert [row["model"] for row in table][-2:] == list(TRIVIAL)
        for model in TRIVIAL:
            shown = {heading for heading, cell in row_of(table, model).items() if cell != "-"}
            assert shown == {"model", "OoD AUROC by own score", "FPR95", "fit s", "predict s"}
        assert row_of(table, "nearest distance")["OoD AUROC by own score"] == ".950"


def test_tables__are_sorted_by_nll(tmp_path):
    text = document(tmp_path, at("wine", 50, "k-NN", "test", nll=0.1), places=SMALL, models=FEW)
    (wine,), (iris,) = (tables(section(text, f"### {data}")) for data in ("wine", "iris"))
    assert [row["model"] for row in wine[:3]] == ["k-NN", "**PNCA**", "RBF-SVM"]
    assert [row["model"] for row in iris[:1]] == ["**PNCA**"]


def test_tables__have_the_columns_that_a_data_set_has(whole):
    text = whole.read_text(encoding="utf-8")
    head = {
        data: set(tables(section(text, f"### {data}"))[0][0]) for data in ("MNIST", "digits", "breast cancer")
    }
    assert head["MNIST"] - head["digits"] == {"rotated accuracy", "rotated AUGRC"}
    assert head["breast cancer"] - head["digits"] == {"AUROC"}
    assert not any("OoD" in heading or heading == "FPR95" for heading in head["breast cancer"])


def test_tables__a_hundred_examples_are_in_the_text_and_the_rest_is_folded(tmp_path):
    places = [("digits", n) for n in (50, 100, 200)]
    text = section(document(tmp_path, places=places, models=FEW), "### digits")
    assert re.findall(r"^<summary>(.*)</summary>$", text, re.MULTILINE) == ["n = 50", "n = 200"]
    assert re.findall(r"^n = (\d+), mean", text, re.MULTILINE) == ["100", "50", "200"]
    assert text.index("n = 100, mean") < text.index("<details>")
    assert text.count("<details>") == text.count("</details>") == 2


def test_tables__say_who_has_fewer_draws(tmp_path):
    given = [*cells(places=SMALL, models=["PNCA"], draws=range(3)), *cells(places=SMALL, models=["k-NN"])]
    text = write_benchmark([run(tmp_path / "run", given)], tmp_path / "part.md").read_text(encoding="utf-8")
    assert "n = 50, mean ± standard deviation over 3 draws (fewer: k-NN 2)." in section(text, "### wine")


def test_tables__count_those_with_fewer_draws_where_they_are_many(tmp_path):
    others = ["DNN", "BNN", "k-NN", "SNGP"]
    given = [*cells(places=SMALL, models=["PNCA"], draws=range(3)), *cells(places=SMALL, models=others)]
    text = write_benchmark([run(tmp_path / "run", given)], tmp_path / "part.md").read_text(encoding="utf-8")
    assert "over 3 draws (fewer: 4 of 5 models, at least 2)." in section(text, "### wine")


def test_tables__covid_has_folds_of_partitions(tmp_path):
    text = document(tmp_path, places=[("COVID", 80)], models=FEW, draws=range(7))
    assert "over 7 folds of 2 partitions." in section(text, "### COVID")


def test_differences__are_paired_and_marked(tmp_path):
    def change(columns, test_set):
        """k-NN is ahead in NLL as it is, behind when both are scaled; in accuracy the draws disagree."""
        if columns["model"] == "k-NN":
            if test_set == "test":
                return {"nll": 0.2, "accuracy": (0.97, 0.87)[columns["draw"]]}
            if test_set == "test, scaled":
                return {"nll": 0.37}
        return {}

    text = document(tmp_path, change, places=SMALL, models=FEW)
    (table,) = tables(section(text, "### wine: differences at n = 50"))
    assert row_of(table, "k-NN") == {
        "PNCA minus": "k-NN",
        "accuracy": "-.025 (-.070 to +.020)",
        "NLL": "*+.100 (+.100 to +.100)*",
        "NLL scaled": "**-.100 (-.100 to -.100)**",
        "OoD AUROC by own score": "**+.097 (+.097 to +.097)**",
    }
    assert list(row_of(table, "nearest distance").values())[1:4] == ["-", "-", "-"]
    assert [row["PNCA minus"] for row in table] == ["RBF-SVM", "k-NN", *TRIVIAL]


def test_losses__an_injected_one_is_found(tmp_path):
    text = section(
        document(tmp_path, at("iris", 50, "RBF-SVM", "test", ece=0.01), places=SMALL, models=FEW),
        "## Where PNCA loses",
    )
    counts, losses = tables(text)
    assert losses == [
        {
            "data": "iris",
            "n": "50",
            "other": "RBF-SVM",
            "measure": "ECE",
            "PNCA minus the other": "+.010 (+.010 to +.010)",
        }
    ]
    assert row_of(counts, "ECE") == {"measure": "ECE", "wins": "3", "ties": "0", "losses": "1"}
    assert row_of(counts, "accuracy") == {"measure": "accuracy", "wins": "4", "ties": "0", "losses": "0"}
    # Here the trivial scores are compared too.
    assert row_of(counts, "OoD AUROC by own score")["wins"] == "8"
    assert "<details>" not in text


def test_losses__none_and_ties(tmp_path):
    def change(columns, test_set):
        return {"ece": 0.02} if test_set == "test" else {}

    text = section(document(tmp_path, change, places=SMALL, models=FEW), "## Where PNCA loses")
    (counts,) = tables(text)
    assert row_of(counts, "ECE") == {"measure": "ECE", "wins": "0", "ties": "4", "losses": "0"}
    assert "No loss." in text


@pytest.mark.parametrize(("n_models", "folded"), [(15, False), (16, True)])
def test_losses__a_long_list_is_folded(tmp_path, n_models, folded):
    losers = [model for model in CONTENDERS if model != "PNCA" and model not in TRIVIAL][:n_models]

    def change(columns, test_set):
        return {"ece": 0.001} if columns["model"] in losers and test_set == "test" else {}

    text = section(
        document(tmp_path, change, places=SMALL[:1], models=["PNCA", *losers]), "## Where PNCA loses"
    )
    assert len(tables(text)[1]) == n_models
    assert (f"<summary>The {n_models} losses</summary>" in text) == folded


def test_losses__one_draw_decides_nothing(tmp_path):
    text = section(document(tmp_path, places=SMALL, models=FEW, draws=[0]), "## Where PNCA loses")
    (counts,) = tables(text)
    assert {cell for row in counts for heading, cell in row.items() if heading != "measure"} == {"0"}


def test_ranks__at_one_size_are_of_all_who_were_there(tmp_path):
    # The forest has fits at the size that is shown first only.
    first = cells(places=[("digits", 100), ("wine", 50)], models=["PNCA", "k-NN", "random forest"])
    other = cells(places=[("digits", 200)], models=["PNCA", "k-NN"])
    given = run(tmp_path / "run", [*first, *other])
    text = write_benchmark([given], tmp_path / "benchmark.md").read_text(encoding="utf-8")
    page = section(text, "## Mean ranks")
    assert "at one number of training examples: digits 100 and wine 50." in page
    everywhere, at_first = tables(page)
    assert {row["model"] for row in everywhere} == {"**PNCA**", "k-NN"}
    assert {row["model"] for row in at_first} == {"**PNCA**", "k-NN", "random forest"}
