from pnca_studies.experiments.demo import record
from pnca_studies.reports.demo import COLUMNS, table_rows, write_figures


def test_table_rows__one_a_model_with_a_dash_for_what_it_lacks(results, experiment):
    models = record(results, experiment, n_train=60, random_state=0)["models"]
    rows = list(table_rows(models))
    assert [row[0] for row in rows] == ["PNCA", "DNN"]
    assert all(len(row) == 1 + len(COLUMNS) for row in rows)
    assert rows[1][1 + list(COLUMNS).index("letters_auroc_evidence")] == "-"
    assert rows[0][1] == f"{models['PNCA']['measures']['accuracy']:.3f}"


def test_write_figures__writes_four_pictures(results, experiment, tmp_path):
    paths = write_figures(results, experiment, tmp_path)
    assert {path.name for path in paths} == {
        "accuracy_vs_confidence_rotated.png",
        "count_vs_confidence_rotated.png",
        "count_vs_confidence_letters.png",
        "inputs.png",
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert len(list(tmp_path.iterdir())) == 4
