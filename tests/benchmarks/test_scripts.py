"""Every benchmark runs at toy size and writes records that can be read; no time is asserted."""

import warnings

import numpy as np
import pytest
import torch

import gpu_small
import growth
import importing
import scoring
import small_fits
from measuring import environment, finish, interleaved, make_inputs, parser, spread
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, read_results


@pytest.fixture(autouse=True)
def quiet():
    """Toy data warn of many things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run(script, tmp_path, *arguments):
    path = tmp_path / "results.json"
    script.main(["--tiny", "--out", str(path), *arguments])
    return read_results(path)


def test_small_fits__has_floors_with_and_without_kappa(tmp_path):
    results = run(small_fits, tmp_path)
    fit = next(record for record in results.records if record.name == "PNCA (paper), fit")
    assert [floor.name for floor in fit.floors] == [
        "products of the network and of kappa",
        "products of the network",
    ]
    assert fit.over_floor() > 0
    assert fit.verdict(fit.targets[0]) is not None
    assert any(record.alternatives for record in results.records)
    share = next(record for record in results.records if "choosing" in record.name)
    assert 0 < share.value < 1
    assert results.environment["is_tiny"]


def test_gpu_small__compares_stacked_folds_with_single_fits(tmp_path):
    results = run(gpu_small, tmp_path, "--device", "cpu")
    assert results.records[0].alternatives[0].name == "each step started from Python"
    assert results.records[-1].speedup() > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_gpu_small__without_a_gpu_says_so(tmp_path):
    results = run(gpu_small, tmp_path)
    assert results.records == ()
    assert results.skipped[0]["reason"] == "no CUDA device here"


def test_scoring__is_a_rate_beside_that_of_one_thread(tmp_path):
    results = run(scoring, tmp_path, "--no-dask")
    one, *others = results.records
    assert one.unit == "rows/s"
    assert one.over_floor() > 0
    assert all(other.speedup() > 0 for other in others)


def test_scoring__parts_cover_all_rows():
    cut = scoring.parts(10, 3)
    assert np.concatenate([np.arange(10)[part] for part in cut]).tolist() == list(range(10))


def test_growth__measures_a_point_of_each_kernel_it_knows():
    for kernel in filter(growth.is_known, growth.KERNELS):
        point = growth.measure_point(
            kernel=kernel, n=30, m=2, d=2, c=3, device="cpu", epochs=3, n_predicted=5
        )
        assert point["fit_seconds"] > 0
        assert point["predict_seconds"] > 0


def test_growth__writes_a_record_a_point_and_skips_unknown_kernels(tmp_path, monkeypatch):
    seen = []

    def measured(settings, threads):
        seen.append(settings)
        return {"fit_seconds": 1.0, "fit_gib": None, "predict_seconds": 2.0, "predict_gib": 0.5}

    monkeypatch.setattr(growth, "measure_in_fresh_process", measured)
    monkeypatch.setattr(growth, "is_known", lambda kernel: kernel != "positive")
    path = tmp_path / "growth.json"
    growth.main(["--out", str(path), "--kernels", "exact, cross", "positive"])
    results = read_results(path)
    assert len(results.records) == 2 * len(seen) == 2 * sum(map(len, growth.SWEEPS.values()))
    assert {record.sweep for record in results.records} == set("nmdc")
    assert results.skipped == ({"name": "positive", "reason": "this version has no such kernel"},)


def test_importing__subtracts_what_was_there_before():
    clock = {"nothing": 0.1, "torch": 2.0, "torch, pnca": 2.1, "torch, scikit-learn": 2.6, "help": 0.4}
    clock["torch, PNCAClassifier"] = 2.7
    names = {tuple(command): name for name, command in importing.COMMANDS.items()}
    taken = importing.measure(2, run=lambda command: clock[names[tuple(command)]])
    package, model, own, help_ = importing.make_records(taken)
    assert package.seconds == pytest.approx(0.1)
    assert package.verdict(package.targets[0]) is True
    assert model.seconds == pytest.approx(0.7)
    assert model.over_floor() == pytest.approx(0.7 / 0.6)
    assert model.verdict(model.targets[0]) is False
    assert own.seconds == pytest.approx(0.1)
    assert help_.seconds == 0.4


def test_importing__runs_a_fresh_interpreter():
    assert importing.run_seconds(importing.COMMANDS["help"]) > 0


def test_products__are_those_of_a_step():
    """Counted as multiplications, in a network 3-4-2 of m = 5 particles on n = 6 examples."""
    with torch.profiler.profile(with_flops=True) as profile:
        repeated(2, network_products([3, 4, 2], 5, 6), kappa_products(n_parameters([3, 4, 2]), 5, 2))()
    flops = sum(event.flops for event in profile.key_averages())
    first, second, p = 5 * 6 * 3 * 4, 5 * 6 * 4 * 2, 3 * 4 + 4 + 4 * 2 + 2
    assert flops == 2 * 2 * (2 * first + 3 * second + 3 * 5 * 5 * p)


def test_interleaved__takes_turns_and_leaves_the_warm_up_out():
    calls = []

    def task(name):
        return lambda: calls.append(name) or float(len(calls))

    taken = interleaved({"a": task("a"), "b": task("b")}, 2, warm_up=1)
    assert calls == list("ababab")
    assert taken == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_finish__keeps_what_was_measured_before_an_error(tmp_path):
    def measurements():
        yield [Record(name="done", seconds=1.0)]
        raise KeyboardInterrupt

    path = tmp_path / "results.json"
    with pytest.raises(KeyboardInterrupt):
        finish(parser("").parse_args(["--out", str(path)]), "b", measurements())
    assert [record.name for record in read_results(path).records] == ["done"]


def test_spread__of_one_is_that_one():
    assert spread([2.0]) == {"seconds": 2.0, "low": 2.0, "high": 2.0, "repeats": 1}


def test_environment__names_machine_versions_and_threads():
    about = environment()
    assert about["threads"] == torch.get_num_threads()
    assert about["versions"]["torch"]
    assert about["date"].endswith("+00:00")


def test_inputs__of_two_seeds_share_their_classes():
    (a, y), (b, _) = make_inputs(200, 2), make_inputs(200, 2, seed=1)
    difference = a[y == 0].mean(axis=0) - b[y == 0].mean(axis=0)
    assert np.abs(difference).max() < 0.3 * 0.7
    assert a.dtype == np.float32
