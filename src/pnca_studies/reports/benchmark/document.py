"""The document about the benchmark, from its first sentence to the seconds."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pnca.files import make_folder, write_text
from pnca_studies.experiments.contenders import CONTENDERS, ON_IMAGES, PAPER, TRIVIAL
from pnca_studies.experiments.covid import N_FOLDS
from pnca_studies.experiments.mnist import ROTATION
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.benchmark.curves import curves_page
from pnca_studies.reports.benchmark.pages import differences_page, losses_page, ranks_page, tables_page
from pnca_studies.reports.benchmark.results import ABOUT, COVID, IMAGES, PNCA, Place, Results
from pnca_studies.reports.benchmark.runs import Run, made_by, read_runs
from pnca_studies.reports.benchmark.targets import targets_page
from pnca_studies.reports.benchmark.writing import GPU_MARK, counted, listed
from pnca_studies.reports.tables import NOTHING, Table, check_document

_INTRODUCTION = """\
# Benchmark

`PNCA` is `PNCAClassifier()` with its default settings. It is compared with {number} on small training sets,
in accuracy, calibration and caution on out-of-distribution (OoD) inputs: {baselines}.

Models of the paper have the paper's settings: {papers}. The others have the settings recommended for them,
and what is left to choose is chosen on the training examples alone. `nearest distance` and `PCA residual`
are no classifiers: they score how far an input is from the training inputs without looking at a label, and a
model should detect OoD inputs better than they do.

## What is compared on what
"""
_PROTOCOL = """\
- **Draws.** Every model gets the same draws of n training examples and the same test inputs.
  Seeds: {seeds}.
{covid}- **Scaled** is after temperature scaling: log-probabilities are divided by the temperature that suits
  predictions of training examples left out of the fit. PNCA has such predictions from its own fit; every
  other model is fitted again, on all but one of {folds}. Without the word, a model is taken as it is.
- **Intervals** are 95 % percentile bootstrap intervals of the mean difference over the draws that both models
  have. With ten draws they are somewhat narrow, and nothing corrects for the number of comparisons.

**Measures.** *NLL*: mean negative log-likelihood. *Brier*: squared error of the class probabilities. *ECE*:
expected calibration error. *AUGRC*: share of answers that are given and wrong, averaged over how many are
given, the most confident first. *Rotated*: the test digits rotated by {rotation:.0f}°. *OoD AUROC*: the
probability that an OoD input has a lower score than a test input, where the score is the confidence, the
model's evidence, or, as *own score*, whichever of the two has the higher mean AUROC (chosen on the test
inputs, so optimistic for every model with two scores). *FPR95*: share of test inputs rejected at the
threshold of the own score that rejects 95 % of the OoD inputs (out-of-distribution is the positive class;
many papers use the reverse). *OoD above .9*: share of OoD inputs answered with a confidence above .9. Higher
is better for accuracy and AUROC, lower for the others.
"""
_PROTOCOL_COVID = f"""\
- **COVID.** A draw is one of the {N_FOLDS} folds of a partition that never splits a patient. Folds share
  training images, so their differences are less independent than those of draws.
"""
_TIMING = """\
## Seconds

Seconds are those of a single thread on {hardware}, and other fits may have run beside it. *fit s* is one fit,
without those that find the temperature; *predict s* is for all test inputs of the data set. A mark
{mark} means that draws were trained on a GPU (`--device cuda`).
"""


def write_benchmark(folders: Sequence[RunFolder], path: Path) -> Path:
    """Write the document, with its figures in a folder of the same name beside it.

    Of a cell that several folders have, the last folder's counts.
    """
    check_document(path)
    results, runs = read_runs(folders)
    pages = [
        _introduction(results, runs, path),
        targets_page(results),
        ranks_page(results),
        tables_page(results),
        differences_page(results),
        losses_page(results),
        curves_page(results, path),
        _timing_page(results, runs),
    ]
    return write_text(make_folder(path.parent) / path.name, "\n".join(page for page in pages if page))


def _introduction(results: Results, runs: Sequence[Run], path: Path) -> str:
    there = [model for model in CONTENDERS if any(model in results.models(place) for place in results.places)]
    baselines = [model for model in there if model != PNCA and model not in TRIVIAL]
    folds = sorted({tuple(run.record["protocol"].get("temperature_folds", ())) for run in runs} - {()})
    parts = [
        _INTRODUCTION.format(
            number=counted(len(baselines), "baseline"),
            baselines=listed(baselines),
            papers=listed([model for model in PAPER if model in there]),
        ),
        _data_table(results),
        *_missing(results),
        _PROTOCOL.format(
            seeds=" / ".join(dict.fromkeys(str(run.record["seeds"]) for run in runs)),
            covid=_PROTOCOL_COVID if COVID in results.sizes() else "",
            folds=" / ".join(_folds_in_words(given) for given in folds) or "the folds",
            rotation=ROTATION,
        ),
        made_by(runs, path),
    ]
    return "\n".join(parts)


def _folds_in_words(folds: Sequence[int]) -> str:
    return f"{max(folds)} folds" + (f" ({min(folds)} where examples are many)" if len(set(folds)) > 1 else "")


def _data_table(results: Results) -> str:
    rows = []
    for data, sizes in results.sizes().items():
        places = [(data, n) for n in sorted(sizes)]
        inputs, ood = ABOUT.get(data, ("", ""))
        n_ood = _span(results, places, "ood")
        rows.append(
            [
                data,
                inputs,
                ", ".join(str(n) for _, n in places),
                str(len({draw for place in places for draw in results.draws(place)})),
                _span(results, places, "test"),
                f"{n_ood} {ood}".strip() if n_ood != NOTHING else NOTHING,
            ]
        )
    headings = ["data", "inputs", "n", "draws", "test inputs", "OoD inputs"]
    return Table(headings=headings, rows=rows).markdown() + "\n"


def _span(results: Results, places: Sequence[Place], test_set: str) -> str:
    """Numbers of examples of a test set, the least and the most."""
    fits = [(place, model) for place in places for model in results.models(place)]
    sizes = {int(n) for place, model in fits for n in results.column(place, model, test_set, "n")}
    return " to ".join(f"{n:,}" for n in sorted({min(sizes), max(sizes)})) if sizes else NOTHING


def _missing(results: Results) -> list[str]:
    """What a whole benchmark would have and these runs have not."""
    sizes, lines = results.sizes(), []
    for data in ABOUT:
        there = {model for n in sizes.get(data, ()) for model in results.models((data, n))}
        wanted = ON_IMAGES if data == IMAGES else CONTENDERS
        absent = [model for model in wanted if model not in there]
        if absent:
            lines.append(f"{data}: {'everything' if not there else ', '.join(absent)}")
    return [f"**Not in these runs:** {'; '.join(lines)}.\n"] if lines else []


def _timing_page(results: Results, runs: Sequence[Run]) -> str:
    machines = dict.fromkeys(run.record["hardware"]["processor"] for run in runs)
    lines = [_TIMING.format(hardware=listed(list(machines)), mark=GPU_MARK)]
    fits = [(place, model) for place in results.places for model in results.models(place)]
    devices = Counter(device for place, model in fits for device in results.devices(place, model))
    if devices[""]:
        lines.append(f"The device of {devices['']:,} fits is not on record; they have no mark.\n")
    return "\n".join(lines)
