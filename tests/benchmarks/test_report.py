"""The document says what the files say, computes what follows, and names what is missing."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import linregress

from cells import duration
from records import Record, Reference, Results, Target
from report import SUMMARY, TEMPLATE, growth_law, main, record_table, write_report

STORED = Path(__file__).parents[2] / "benchmarks" / "results"
NAMES = set(re.findall(r"{{ (\w+) }}", TEMPLATE.read_text(encoding="utf-8"))) - {"summary", "shortfalls"}

ABOUT = {"processor": "Abacus", "cores": 2, "threads": 1, "versions": {"torch": "9.9"}, "date": "2026-01-01T"}


def write(folder, name, *records, skipped=(), about=ABOUT):
    results = Results(benchmark=name, environment=about, records=records, skipped=skipped)
    results.write(folder / f"{name}.json")


def fit(seconds, floor=1.0):
    return Record(
        name="PNCA, fit",
        n=1000,
        seconds=seconds,
        floors=(Reference(name="products", seconds=floor),),
        alternatives=(Reference(name="authors' code", seconds=42.0, source="elsewhere"),),
        targets=(
            Target(text="at most 1.5 times", quantity="over_floor", at_most=1.5),
            Target(text="35 times faster", quantity="speedup", at_least=35),
        ),
    )


def growth(power, sizes=(100, 200, 400)):
    return [
        Record(
            name=f"exact, n = {n}",
            n=n,
            seconds=1e-6 * n**power,
            memory_gib=1e-3 * n,
            series="exact: fit",
            sweep="n",
        )
        for n in sizes
    ]


def test_record_table__computes_ratios_and_verdicts():
    (row,) = record_table([fit(1.4)]).to_numpy().tolist()
    assert row == [
        "PNCA, fit",
        "1,000",
        "1.40 s",
        "authors' code takes 30.0 times as long (42.0 s, elsewhere)",
        "1.40 times products (1.00 s)",
        "at most 1.5 times<br>35 times faster",
        "**met**<br>**not met**",
    ]


def test_record_table__has_no_ratio_to_a_difference_below_zero():
    (row,) = record_table([fit(-0.1)]).to_numpy().tolist()
    assert row[2:5] == ["-100 ms", "authors' code (42.0 s, elsewhere)", "products (1.00 s)"]


def test_record_table__leaves_out_columns_that_nobody_fills():
    assert list(record_table([Record(name="a", value=0.25, unit="of all")])) == ["what", "measured"]


def test_report__lists_long_notes_below_the_table_once(tmp_path):
    long, other = "a b " * 30 + "end", "c d " * 30 + "end"
    write(
        tmp_path,
        "small_fits",
        Record(name="first", seconds=1.0, note=long),
        Record(name="second", seconds=1.0, note="short"),
        Record(name="third", n=2000, seconds=1.0, note=other),
        Record(name="fourth", seconds=1.0, note=long),
    )
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    for cell in ("first <sup>1</sup>", "second (short)", "third <sup>2</sup>", "fourth <sup>1</sup>"):
        assert f"| {cell} |" in text
    assert f"\n1. {long}.\n2. third, n = 2,000: {other}.\n" in text


def test_report__says_which_command_and_machine_made_a_table(tmp_path):
    about = {"gpu": "Chip", "note": "before", "options": "--repeats 7 --no-flex"}
    write(tmp_path, "gpu_masses", Record(name="here", seconds=1.0), about=about)
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    command = "python benchmarks/gpu_masses.py --repeats 7 --no-flex --out benchmarks/results/gpu_masses.json"
    assert f"*`{command}`: Chip; before.*" in text


def test_summary__puts_each_cost_beside_a_baseline_of_its_run(tmp_path):
    note = "{} epochs; 10,000 predictions in {} s"
    write(
        tmp_path,
        "mnist_scale",
        Record(name="default", n=60_000, seconds=30.0, note=note.format(20, "1.2")),
        Record(name="positive features", n=60_000, seconds=6.0, note=note.format(5, "0.3")),
        about={"gpu": "Chip"},
    )
    write(tmp_path, "small_fits", replace(fit(2.0), name="PNCA (paper), fit", n=100, alternatives=()))
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    assert re.findall(r"^\| .* \|$", text, flags=re.MULTILINE)[1:4] == [
        "| paper's PNCA, 100 rows: fit | 2 CPU cores | floor: products | 2.00 s | 1.00 s | .500 |",
        "| default fit, 60,000 images, exact kernel | Chip | positive features | 30.0 s | 6.00 s | .200 |",
        "| 10,000 predictions of that model | Chip | positive features | 1.20 s | 300 ms | .250 |",
    ]


def test_summary__finds_its_rows_in_the_stored_results(tmp_path):
    text = write_report(STORED, tmp_path / "performance.md").read_text()
    tasks = [line.split(";")[0] for line in SUMMARY.read_text(encoding="utf-8").splitlines()[1:]]
    assert re.findall(r"^\| (.*?) \|", text, flags=re.MULTILINE)[1 : 1 + len(tasks)] == tasks
    assert "{{" not in text
    assert "Not measured" not in text


def test_report__lists_what_falls_short_and_only_that(tmp_path):
    write(tmp_path, "small_fits", fit(1.4))
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    shortfalls = text.split("## What falls short")[1].split("\n## ")[0]
    assert "1 of 2 targets that were measured are met." in shortfalls
    assert "PNCA, fit: 35 times faster, not met (1.40 s;" in shortfalls
    assert "at most 1.5 times," not in shortfalls
    assert "Abacus; 2 cores; 1 torch thread; torch 9.9; 2026-01-01.*" in text


def test_report__shows_the_alternative_that_a_missed_target_names(tmp_path):
    slow, fast = Reference(name="slow", seconds=9.0), Reference(name="fast", seconds=0.5)
    targets = [
        Target(text=f"as {name}", quantity="speedup", of=name, at_least=1) for name in ("fast", "none")
    ]
    record = Record(name="tiles", seconds=1.0, alternatives=(slow, fast), targets=tuple(targets))
    write(tmp_path, "cpu_masses", record)
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    assert "- tiles: as fast, not met (1.00 s; fast takes .500 times as long (500 ms))." in text
    assert "- tiles: as none, cannot be said (1.00 s)." in text


def test_report__says_which_files_are_missing(tmp_path):
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    assert set(re.findall(r"Not measured: there is no `(\w+)\.json`\.", text)) == NAMES
    assert len(re.findall(r"^- .+: not measured\.$", text, flags=re.MULTILINE)) == len(NAMES)
    assert "0 of 0 targets" in text


def test_report__says_what_was_skipped_and_that_toys_are_toys(tmp_path):
    write(tmp_path, "gpu_small", skipped=({"name": "small fits", "reason": "no CUDA device here"},))
    write(tmp_path, "importing", Record(name="help", seconds=0.1), about={**ABOUT, "is_tiny": True})
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    assert "- small fits was skipped: no CUDA device here." in text
    assert "- Small fits on a GPU: not measured" in text
    assert text.count("Toy sizes: not a measurement") == 1


def test_report__puts_files_of_the_same_name_together_and_shows_strangers(tmp_path):
    write(tmp_path, "small_fits", Record(name="here", seconds=1.0))
    write(tmp_path, "small_fits_cuda", Record(name="there", seconds=0.1))
    write(tmp_path, "sorting_hats", Record(name="hats", seconds=1.0))
    text = write_report(tmp_path, tmp_path / "performance.md").read_text()
    section = text.split("## Small fits on a CPU\n")[1].split("\n## ")[0]
    assert "| here |" in section
    assert "| there |" in section
    assert "## Sorting hats" in text


def test_report__fits_and_plots_growth(tmp_path):
    write(tmp_path, "growth", *growth(2))
    main([str(tmp_path), "--out", str(tmp_path / "docs" / "performance.md")])
    text = (tmp_path / "docs" / "performance.md").read_text()
    assert "| exact: fit | n | 2.00 ± 0.00 | 2.00 | 1.00 ± 0.00 | 1.00 |" in text
    for name in ("growth_time.png", "growth_memory.png"):
        assert f"(performance/{name})" in text
        assert (tmp_path / "docs" / "performance" / name).stat().st_size > 5000


def test_report__says_in_one_sentence_what_is_wrong(tmp_path, capsys):
    results = tmp_path / "results"
    results.mkdir()
    (results / "growth.json").write_text("{}")
    for arguments, reason in (
        (["nowhere", "--out", "performance.md"], "nowhere is not a folder of result files."),
        ([str(results), "--out", "performance.html"], "performance.html must end in .md"),
        ([str(results), "--out", str(tmp_path / "performance.md")], "growth.json is not a file of benchmark"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        message = str(stopped.value)
        assert message.startswith("report.py: ")
        assert reason in message
        assert "\n" not in message
    assert not (tmp_path / "performance.md").exists()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(150.0, "2.50 min"), (90.0, "90.0 s"), (0.9999, "1000 ms"), (2.5e-5, "25.0 µs"), (0.0, "0 µs")],
)
def test_duration__chooses_a_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("power", [0.0, 2.5])
def test_growth_law__of_a_pure_power_is_that_power(power):
    sizes = [10, 20, 50, 400]
    assert growth_law(sizes, [3 * size**power for size in sizes]) == pytest.approx(
        (power, 0, power), abs=1e-7
    )


def test_growth_law__of_a_sum_lies_between_its_powers_and_ends_nearer_the_larger():
    sizes = [250, 500, 1000, 2000, 4000]
    law = growth_law(sizes, [size + 1e-3 * size**2 for size in sizes])
    assert 1 < law.exponent < law.at_end < 2


def test_growth_law__error_is_that_of_scipy():
    rng = np.random.RandomState(0)
    sizes = np.array([1, 2, 4, 8, 16])
    costs = sizes**1.5 * np.exp(0.1 * rng.normal(size=5))
    fit = linregress(np.log(sizes), np.log(costs))
    assert growth_law(sizes, costs)[:2] == pytest.approx((fit.slope, fit.stderr))


def test_growth_law__needs_two_sizes_with_a_cost():
    assert growth_law([5, 5], [1, 2]) is None
    assert growth_law([], []) is None
    assert growth_law([1, 2, 4], [1, 0, float("nan")]) is None
    assert math.isnan(growth_law([1, 2], [1, 2]).error)
