"""Every benchmark runs at toy size and writes records that can be read; no time is asserted."""

import csv
import pkgutil
import shlex
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import cpu_masses
import default_fits
import gpu_masses
import gpu_small
import growth
import importing
import mnist_scale
import positive_kernel
import predicting_files
import problems
import scaling
import scoring
import serving
import small_fits
from measuring import (
    INSIDE,
    clocked,
    command_line,
    environment,
    finish,
    interleaved,
    limited_threads,
    parser,
)
from pnca import PNCAClassifier
from problems import make_inputs
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, Reference, read_results


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


def test_default_fits__are_beside_a_forest_and_name_their_phases(tmp_path):
    records = run(default_fits, tmp_path).records
    assert records[0].name == "PNCAClassifier(), 4 columns: fit"
    assert [reference.name for reference in records[0].alternatives] == [default_fits.FOREST]
    assert records[0].speedup() > 0
    assert sum(record.seconds for record in records[1:]) < 1.1 * records[0].seconds


@pytest.mark.slow  # five processes that import torch
def test_predicting_files__measures_the_command_and_the_same_by_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(predicting_files, "N_TRAIN", 40)
    out = tmp_path / "found.csv"
    predicting_files.main(["--rows", "60", "--few", "30", "--columns", "3", "--out", str(out)])
    lines = out.read_text().splitlines()
    assert lines[0] == "what,rows,columns,seconds,cpu_seconds,peak_mb"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["command", "30"], ["arrays", "30"], ["command", "60"], ["arrays", "60"]
    ]  # fmt: skip


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
    assert results.records[0].alternatives[0].name == "each step launched from Python"
    assert results.records[-1].speedup() > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("script", [gpu_small, gpu_masses])
def test_gpu__without_one_says_so(tmp_path, script):
    results = run(script, tmp_path)
    assert results.records == ()
    assert [entry["reason"] for entry in results.skipped] == ["no CUDA device here"]


@pytest.mark.parametrize(
    "case",
    [gpu_masses.Case(n=40, m=3, d=4, p=p, is_shared=is_shared) for p in (0, 5) for is_shared in (0, 1)],
)
def test_gpu_masses__exact_gradient_is_that_of_the_whole_kernel(case):
    problem = gpu_masses.Problem(case, "cpu")
    ways = {name: lambda: problem.gradient(problem.whole_kernel()) for name in ("fused", "again")}
    record = gpu_masses.measure(case, ways, problem, 1, "cpu")
    assert 0 < record.value < 1e-5
    assert record.value == record.alternatives[0].value
    assert problem.error(2 * problem.gradient(problem.whole_kernel())) == pytest.approx(1, abs=1e-4)


def test_gpu_masses__measures_every_case(monkeypatch):
    """With the whole kernel in the place of the fused ones, which need a GPU."""
    monkeypatch.setattr(gpu_masses.Problem, "fused", gpu_masses.Problem.whole_kernel)
    chosen = SimpleNamespace(tiny=True, repeats=1, device="cpu", no_flex=True)
    (alone,), (beside,) = gpu_masses._measure_all(chosen, {})
    assert alone.note.startswith("forward alone ")
    assert [reference.name for reference in beside.alternatives] == ["whole kernel in torch"]
    assert beside.speedup() > 0


def test_gpu_masses__attention_gives_the_same_masses():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    problem = gpu_masses.Problem(gpu_masses.Case(n=40, m=3), "cpu")
    with torch.no_grad():
        masses = gpu_masses.attention_masses(problem, flex.flex_attention)
        expected = problem.whole_kernel()[0].exp()
    torch.testing.assert_close(masses, expected, rtol=1e-3, atol=1e-6)


def test_gpu_masses__asks_for_time_memory_and_precision():
    names = [target.quantity for target in gpu_masses._TARGETS]
    assert names == ["seconds", "memory_gib", "value"]
    assert gpu_masses.ASKED in gpu_masses.LARGE


def test_cpu_masses__is_compared_with_others_and_has_its_memory(tmp_path):
    results = run(cpu_masses, tmp_path)
    one, alone, *small = results.records
    assert [reference.name for reference in one.alternatives][1:3] == [
        "scikit-learn's NCA, float32",
        "scikit-learn's NCA, float64",
    ]
    of_scikit_learn, of_keops = (one.verdict(target) for target in one.targets)
    assert of_scikit_learn is not None
    assert (of_keops is None) is any(entry["name"] == "KeOps" for entry in results.skipped)
    assert alone.memory_gib > 0
    assert alone.verdict(alone.targets[0]) is True
    assert all(record.speedup("the whole kernel") > 0 for record in small)


def test_cpu_masses__contenders_agree():
    z, labels = cpu_masses.problem(60, 2)
    for is_shared in (False, True):
        answers = problems.answering(2, is_shared=is_shared)
        ours, whole = (way(z, labels, answers)() for way in (cpu_masses.in_tiles, cpu_masses.at_once))
        torch.testing.assert_close(ours, whole, rtol=1e-4, atol=1e-5)


def test_cpu_masses__target_is_about_the_faster_way():
    with_both = [
        Reference(name=f"KeOps, {way}", seconds=seconds) for way, seconds in (("a", 2.0), ("b", 1.0))
    ]
    assert cpu_masses.as_fast_as("KeOps", with_both).of == "KeOps, b"
    assert cpu_masses.as_fast_as("KeOps", []).of == "KeOps"


def digits(n=80):
    """Something of the shape of MNIST and notMNIST."""
    draw, labels = np.random.RandomState(0), np.arange(n) % 10
    images = draw.randint(0, 256, (n, 28, 28)).astype(np.uint8)
    mnist = SimpleNamespace(
        train_images=images, train_labels=labels, test_images=images[:20], test_labels=labels[:20]
    )
    return mnist, SimpleNamespace(images=images[20:40])


@pytest.mark.parametrize(("script", "n_records"), [(positive_kernel, 2), (mnist_scale, 0)])
def test_mnist__without_data_measures_what_needs_none(tmp_path, monkeypatch, script, n_records):
    monkeypatch.delenv("PNCA_DATA_DIR", raising=False)
    results = run(script, tmp_path)
    assert len(results.records) == n_records
    assert all(len(record.alternatives) == 3 for record in results.records)
    assert results.skipped == ({"name": "MNIST", "reason": "PNCA_DATA_DIR is not set"},)


def test_positive_kernel__measures_models_beside_exact_ones(tmp_path, monkeypatch):
    mnist, letters = digits()
    monkeypatch.setenv("PNCA_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(problems, "load_mnist", lambda folder: mnist)
    monkeypatch.setattr(problems, "load_notmnist", lambda folder: letters)
    results = run(positive_kernel, tmp_path)
    names = [record.name for record in results.records]
    assert names[2:4] == ["fitted embeddings, 20 features", "fitted embeddings, 40 features"]
    *_, features = results.records
    assert features.name == "MNIST, positive features"
    assert features.unit == "accuracy"
    assert "by evidence" in features.note
    assert features.speedup("exact kernel") > 0
    assert features.speedup("exact kernel without inputs") > 0


def test_positive_kernel__errors_shrink_with_the_number_of_features():
    few, many = (
        positive_kernel.measure_errors("random", positive_kernel.random_embeddings(200), blocks)
        for blocks in (5, 500)
    )
    assert many.value < 0.5 * few.value


def test_positive_kernel__the_exact_kernel_has_no_error():
    def exact(queries, support, labels, blocks, seed):
        return positive_kernel.log_latent_kernel(queries, support, positive_kernel.BANDWIDTH)

    found = positive_kernel.errors(exact, positive_kernel.random_embeddings(60), 1)
    assert found == {"near": 0, "mass": 0, "shares": 0}


def test_scaling__starts_processes_that_time_their_steps(tmp_path):
    # Two are started by tests/training/test_distributed.py.
    results = run(scaling, tmp_path, "--processes", "1")
    assert [record.name for record in results.records] == [
        f"step of {model}, 1 process" for model in scaling.MODELS
    ]
    assert all(record.seconds > 0 and record.repeats == 2 for record in results.records)
    assert results.environment["threads"] == 1


def test_scaling__efficiency_is_one_where_two_take_half_as_long():
    def figures(wall, processor):
        return {"wall": wall, "processor": processor, "gathered": 400, "summed": 3000}

    rounds = [{name: figures([2.0], [2.0]) for name in scaling.MODELS} for _ in range(2)]
    single = scaling.pooled(rounds)
    assert single["ensemble"]["wall"] == [2.0, 2.0]
    double = {name: figures([1.0, 4.0, 1.0], [0.5]) for name in scaling.MODELS}
    one, two, *_ = scaling.make_records({1: single, 2: double}, 40, 2)
    assert (one.alternatives, one.value) == ((), None)
    assert (two.value, two.speedup("one process")) == (1.0, 2.0)
    assert "leaves waiting out, 2.00; a process puts 400 bytes" in two.note


def test_scoring__is_a_rate_beside_that_of_one_thread(tmp_path):
    results = run(scoring, tmp_path, "--no-dask")
    one, *others = results.records
    assert one.unit == "rows/s"
    assert one.over_floor() > 0
    assert all(other.speedup() > 0 for other in others)


def test_scoring__parts_cover_all_rows():
    cut = scoring.parts(10, 3)
    assert np.concatenate([np.arange(10)[part] for part in cut]).tolist() == list(range(10))


@pytest.mark.parametrize("kernel", growth.KERNELS)
def test_growth__measures_a_point_of_each_kernel(kernel):
    point = growth.measure_point(kernel=kernel, n=30, m=2, d=2, c=3, device="cpu", epochs=3, n_predicted=5)
    assert point["fit_seconds"] > 0
    assert point["predict_seconds"] > 0


def test_growth__writes_a_record_of_fit_and_prediction_for_every_point(tmp_path, monkeypatch):
    seen = []

    def measured(script, flag, point, threads):
        seen.append(point)
        return {"fit_seconds": 1.0, "fit_gib": None, "predict_seconds": 2.0, "predict_gib": 0.5}

    monkeypatch.setattr(growth, "in_fresh_process", measured)
    path = tmp_path / "growth.json"
    growth.main(["--out", str(path), "--kernels", "exact, cross"])
    records = read_results(path).records
    assert len(records) == 2 * len(seen) == 2 * sum(map(len, growth.SWEEPS.values()))
    assert {record.sweep for record in records} == set("nmdc")


def test_importing__subtracts_what_was_there_before():
    taken = {"nothing": 0.1, "torch": 2.0, "torch, pnca": 2.1, "torch, scikit-learn": 2.6, "help": 0.4}
    taken["torch, PNCAClassifier"] = 2.7
    assert taken.keys() == importing.COMMANDS.keys()
    records = importing.make_records({name: [seconds] for name, seconds in taken.items()})
    package, model, _, help_ = records
    assert [record.seconds for record in records] == pytest.approx([0.1, 0.7, 0.1, 0.4])
    assert package.verdict(package.targets[0]) is True
    assert model.over_floor() == pytest.approx(0.7 / 0.6)
    assert model.verdict(model.targets[0]) is False
    assert help_.over_floor() == pytest.approx(4)


def test_importing__runs_a_fresh_interpreter():
    importing.start(importing.COMMANDS["help"])


def test_products__are_those_of_a_step():
    """Counted as multiplications, in a network 3-4-2 of m = 5 particles on n = 6 examples."""
    with torch.profiler.profile(with_flops=True) as profile:
        repeated(2, network_products([3, 4, 2], 5, 6), kappa_products(n_parameters([3, 4, 2]), 5, 2))()
    flops = sum(event.flops for event in profile.key_averages())
    first, second, p = 5 * 6 * 3 * 4, 5 * 6 * 4 * 2, 3 * 4 + 4 + 4 * 2 + 2
    assert flops == 2 * 2 * (2 * first + 3 * second + 3 * 5 * 5 * p)


def test_clocked__times_calls_inside_the_library_and_puts_them_back():
    before = {name: pkgutil.resolve_name(path) for name, path in INSIDE.items()}
    with clocked("selection") as selection, clocked("epoch") as epochs, clocked("training") as training:
        PNCAClassifier(max_epochs=3, random_state=0).fit(*make_inputs(20, 2, 5))
    assert [len(clock["wall"]) for clock in (selection, epochs, training)] == [1, 3, 1]
    assert {name: pkgutil.resolve_name(path) for name, path in INSIDE.items()} == before


def test_interleaved__takes_turns_and_leaves_the_warm_up_out():
    calls = []

    def task(name):
        return lambda: calls.append(name) or float(len(calls))

    taken = interleaved({"a": task("a"), "b": task("b")}, 2, warm_up=1)
    assert calls == list("ababab")
    assert taken == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_limited_threads__are_given_back():
    before = torch.get_num_threads()
    with limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_finish__keeps_what_was_measured_before_an_error(tmp_path):
    def measurements():
        yield [Record(name="done", seconds=1.0)]
        raise KeyboardInterrupt

    path = tmp_path / "results.json"
    with pytest.raises(KeyboardInterrupt):
        finish(parser("").parse_args(["--out", str(path)]), "b", measurements())
    assert [record.name for record in read_results(path).records] == ["done"]


def test_environment__names_machine_versions_and_threads():
    about = environment()
    assert about["threads"] == torch.get_num_threads()
    assert about["versions"]["torch"]
    assert about["date"].endswith("+00:00")


def test_command_line__repeats_the_run():
    options = parser("What it does.", repeats=3)
    options.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2))
    options.add_argument("--kernels", nargs="*", default=["exact, cross", "positive"])
    options.add_argument("--no-flex", action="store_true")
    chosen = options.parse_args(["--out", "there.json", "--no-flex", "--device", "cuda"])
    line = command_line(chosen)
    assert line == "--repeats 3 --device cuda --sizes 1,2 --kernels 'exact, cross' positive --no-flex"
    assert options.parse_args(["--out", "there.json", *shlex.split(line)]) == chosen


def test_inputs__of_two_seeds_share_their_classes():
    (a, y), (b, _) = make_inputs(200, 2), make_inputs(200, 2, seed=1)
    difference = a[y == 0].mean(axis=0) - b[y == 0].mean(axis=0)
    assert np.abs(difference).max() < 0.3 * 0.7
    assert a.dtype == np.float32


def test_serving__asks_a_server_on_this_machine_and_the_model_directly(tmp_path, capsys):
    pytest.importorskip("fastapi")
    out = tmp_path / "serving.csv"
    serving.main(["--tiny", "--requests", "8", "--clients", "1", "4", "--out", str(out)])
    with out.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["clients"] for line in lines] == ["0", "1", "4"]
    assert {line["requests"] for line in lines} == {"8"}
    for line in lines:
        assert float(line["cpu_ms"]) > 0
        assert 0 < float(line["p50_ms"]) <= float(line["p99_ms"])
    assert float(lines[0]["ratio"]) == 1
