"""Tables in parts: one after the other, or by processes of Dask, with the same result."""

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

from pnca.exceptions import InvalidInputError, MissingDataError, WorkersLostError
from pnca.tables import open_parts, open_table
from pnca.workflows import predict_table
from pnca.workflows.answers import Settings, _Sample


@pytest.fixture(scope="module")
def parts(tmp_path_factory, patients):
    """The new rows in four files, of which one has its columns in another order."""
    folder, new = tmp_path_factory.mktemp("parts"), patients[1]
    for place, start in enumerate(range(0, 20, 5)):
        part = new.iloc[start : start + 5]
        part = part[part.columns[::-1]] if place == 2 else part
        part.to_csv(folder / f"{place}.csv", index=False, na_rep="NA")
    return folder


@pytest.fixture(scope="module")
def cluster():
    """Two workers."""
    pytest.importorskip("distributed")
    from pnca.workflows.clusters import dask_cluster

    with dask_cluster(jobs=2) as found:
        yield found


SETTINGS = Settings(max_error=0.3)


def test_parts__are_predicted_in_order_as_one_table_is(model, parts, folder, tmp_path):
    found = predict_table(model, open_parts(parts), tmp_path / "p.csv", SETTINGS)
    said = pd.read_csv(tmp_path / "p.csv")
    one = predict_table(model, open_table(folder / "new.csv"), tmp_path / "one.csv", SETTINGS)
    own = pd.read_csv(tmp_path / "one.csv")
    assert said["part"].tolist() == [f"{row // 5}.csv" for row in range(20)]
    pd.testing.assert_frame_equal(said.drop(columns="part"), own, rtol=1e-9)
    assert (found.n, found.counts, found.drift.n) == (one.n, one.counts, one.drift.n)
    assert found.drift.p_value == pytest.approx(one.drift.p_value)


def test_parts__rows_without_names_are_counted_in_their_file(model, parts, tmp_path):
    for path in parts.iterdir():
        pd.read_csv(path).drop(columns="sample").to_csv(tmp_path / path.name, index=False, na_rep="NA")
    predict_table(model, open_parts(tmp_path), tmp_path / "p.parquet", SETTINGS)
    said = pd.read_parquet(tmp_path / "p.parquet")
    assert list(said.columns[:2]) == ["part", "row"]
    assert said["row"].tolist() == [1, 2, 3, 4, 5] * 4


def test_parts__a_wrong_value_is_named_with_its_file_and_row(model, parts, tmp_path):
    for path in parts.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    wrong = pd.read_csv(tmp_path / "3.csv").astype({"age": str})
    wrong.loc[1, "age"] = "old"
    wrong.to_csv(tmp_path / "3.csv", index=False)
    out = tmp_path / "p.csv"
    with pytest.raises(InvalidInputError, match=r"3\.csv: row 2, column 'age': 'old' is no number"):
        predict_table(model, open_parts(tmp_path), out, SETTINGS)
    assert not out.exists()


def test_open_parts__refusals(parts, tmp_path):
    with pytest.raises(MissingDataError, match="There are no tables in"):
        open_parts(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    (tmp_path / "readme.md").write_text("x")
    with pytest.raises(InvalidInputError, match=r"b\.csv has other columns than .*a\.csv, such as 'y'"):
        open_parts(tmp_path)
    found = open_parts(tmp_path / "[a]*.csv")
    assert found.labels == ("a.csv",)
    (tmp_path / "b.csv").write_text("x;y\n1,5;2\n")
    with pytest.raises(InvalidInputError, match="separate columns differently"):
        open_parts(tmp_path)
    (tmp_path / "b.csv").unlink()
    assert "1 files" in open_parts(tmp_path).notes[0]


def test_dask__writes_the_same_bytes(model, parts, cluster, tmp_path):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of more the last digits of a product depend
    try:
        for suffix in ("csv", "parquet"):
            here = predict_table(model, open_parts(parts), tmp_path / f"here.{suffix}", SETTINGS)
            there = predict_table(
                model, open_parts(parts), tmp_path / f"there.{suffix}", SETTINGS, cluster=cluster
            )
            assert (tmp_path / f"here.{suffix}").read_bytes() == (tmp_path / f"there.{suffix}").read_bytes()
            assert (there.n, there.counts, there.notes) == (here.n, here.counts, here.notes)
            assert there.drift.p_value == here.drift.p_value
    finally:
        torch.set_num_threads(threads)


def test_dask__what_is_wrong_with_a_part_is_said_and_nothing_written(model, parts, cluster, tmp_path):
    for path in parts.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "1.csv").write_text((tmp_path / "1.csv").read_text().replace(".", "x", 1))
    out = tmp_path / "p.csv"
    with pytest.raises(InvalidInputError, match=r"1\.csv: row 1, column 'marker'"):
        predict_table(model, open_parts(tmp_path), out, SETTINGS, cluster=cluster)
    assert not [path for path in tmp_path.iterdir() if "p.csv" in path.name]


def test_dask__a_worker_that_dies_is_replaced(model, parts, cluster, tmp_path):
    predict_table(model, open_parts(parts), tmp_path / "here.csv", SETTINGS)
    pids = list(cluster.client.run(os.getpid).values())
    killed = threading.Timer(0.05, os.kill, (pids[0], signal.SIGKILL))
    killed.start()
    predict_table(model, open_parts(parts), tmp_path / "there.csv", SETTINGS, cluster=cluster)
    killed.join()
    here, there = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("here", "there"))
    pd.testing.assert_frame_equal(here, there, rtol=1e-9)


def test_dask__workers_that_die_again_and_again_end_it_with_nothing_written(
    model, parts, cluster, tmp_path, monkeypatch
):
    from pnca.workflows import clusters

    monkeypatch.setattr(clusters, "_predicted", lambda *_: os._exit(1))
    with pytest.raises(WorkersLostError, match="nothing was written"):
        predict_table(model, open_parts(parts), tmp_path / "p.csv", SETTINGS, cluster=cluster)
    assert not list(tmp_path.iterdir())


def test_sample__of_parts_does_not_depend_on_who_drew():
    merged = _Sample()
    for seed in range(6):
        one = _Sample(seed)
        numbers = np.arange(1000.0 * seed, 1000.0 * seed + 1000)
        one.add(numbers[:, None], numbers, None)
        merged.merge(one)
    assert len(set(merged.evidence)) == 2000
    assert (np.diff(merged.evidence) > 0).all()
    assert 250 < np.histogram(merged.evidence, bins=[0, 1000, 6000])[0][0] < 420
