"""One document about the benchmark: targets, ranks, tables, paired differences, losses and curves."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pnca.evaluation import bootstrap_interval
from pnca.exceptions import InvalidInputError
from pnca.experiments.benchmark import SCALED
from pnca.experiments.benchmark_data import N_FOLDS, ROTATION
from pnca.experiments.contenders import CONTENDERS, ON_IMAGES, PAPER, TRIVIAL
from pnca.experiments.store import CellResult, RunFolder, fingerprint
from pnca.files import make_folder, write_text
from pnca.reports.figures import save_figure
from pnca.reports.frame import Frame, Row
from pnca.reports.panels import Panel, panels_figure
from pnca.reports.run import command
from pnca.reports.tables import NOTHING, Table, mean_sd, number, per_cent, signed
from pnca.rivals import RIVALS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MET, NOT_MET, NOT_RUN = "met", "not met", "not run"

_PNCA, _PAPERS_PNCA = "PNCA", "PNCA (paper)"
_MNIST, _IMAGES, _COVID = "MNIST", "MNIST images", "COVID"
#: Each data set: its inputs, and what is foreign to it.
_ABOUT = {
    _MNIST: ("digits as rows of 784 pixels", "notMNIST letters"),
    _IMAGES: ("digits as images, seen shifted, turned and resized at random", "notMNIST letters"),
    _COVID: ("features of chest X-rays, by patient", "bone X-rays"),
    "digits": ("digits of 8 by 8 pixels", "of a class held out, another in each draw"),
    "breast cancer": ("30 measurements of cells", ""),
    "wine": ("13 chemical measurements", "of a class held out, another in each draw"),
    "iris": ("4 measurements of flowers", "of a class held out, another in each draw"),
}
#: Data sets of the mean ranks: those that every contender takes part in.
_RANKED = tuple(name for name in _ABOUT if name != _IMAGES)
#: Training examples of the targets on MNIST, and the number that is shown first everywhere.
_TARGET_SIZES, _FIRST_SIZE = (100, 200, 400), 100
#: The lines of the learning curves.
_MAIN = (
    *(_PNCA, "Ensemble + dropout", "MC dropout", "BNN", _PAPERS_PNCA),
    *("RBF-SVM", "logistic regression"),
)
_CURVES = (_MNIST, "digits")
#: Opacity of PNCA's band; those of the others are paler.
_BAND = 0.2
#: A longer list of losses is folded.
_LONG_LIST = 15
#: Of more models that have fewer draws, only the number is said.
_FEW_NAMES = 3
#: The test set under which the seconds of a cell are kept, and the mark of seconds on a GPU.
_SECONDS, _GPU_MARK = "seconds", "†"

#: A data set and a number of training examples.
Place = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that models are compared by.

    Attributes
    ----------
    name : str
        In tables.
    test_set : str
        Where it is taken.
    column : str
        Of the tidy table; ``{own}`` stands for the better of confidence and evidence.
    more : bool
        Whether more is better.
    """

    name: str
    test_set: str
    column: str
    more: bool = False


_ACCURACY = Measure(name="accuracy", test_set="test", column="accuracy", more=True)
_AUROC = Measure(name="AUROC", test_set="test", column="auroc", more=True)
_NLL = Measure(name="NLL", test_set="test", column="nll")
_NLL_SCALED = Measure(name="NLL scaled", test_set=f"test{SCALED}", column="nll")
_BRIER = Measure(name="Brier", test_set="test", column="brier")
_ECE = Measure(name="ECE", test_set="test", column="ece")
_ECE_SCALED = Measure(name="ECE scaled", test_set=f"test{SCALED}", column="ece")
_AUGRC = Measure(name="AUGRC", test_set="test", column="augrc")
_ROTATED = Measure(name="rotated accuracy", test_set="rotated", column="accuracy", more=True)
_ROTATED_AUGRC = Measure(name="rotated AUGRC", test_set="rotated", column="augrc")
_BY_CONFIDENCE = Measure(
    name="OoD AUROC by confidence", test_set="ood", column="ood_auroc_confidence", more=True
)
_BY_EVIDENCE = Measure(name="OoD AUROC by evidence", test_set="ood", column="ood_auroc_evidence", more=True)
_BY_OWN = Measure(name="OoD AUROC by own score", test_set="ood", column="ood_auroc_{own}", more=True)
_FPR95 = Measure(name="FPR95", test_set="ood", column="ood_fpr95_{own}")
_ABOVE = Measure(name="OoD above .9", test_set="ood", column="above_0.9")
_FIT = Measure(name="fit s", test_set=_SECONDS, column="fit_seconds")
_PREDICT = Measure(name="predict s", test_set=_SECONDS, column="predict_seconds")

_RANKED_BY = (_NLL, _NLL_SCALED, _ACCURACY, _BRIER, _ECE, _BY_OWN, _BY_CONFIDENCE)
_DIFFERENCES = (_ACCURACY, _NLL, _NLL_SCALED, _BY_OWN)
_LOSSES = (_ACCURACY, _NLL, _NLL_SCALED, _ECE, _BY_OWN)
_PANELS = {"Accuracy": _ACCURACY, "NLL": _NLL, "ECE": _ECE, "OoD AUROC": _BY_OWN}

_INTRODUCTION = """\
# Benchmark

`PNCA` is `PNCAClassifier()` as it is. It is compared with {n_rivals} on small training sets, in accuracy, in
calibration and in caution about inputs that belong to no class: {rivals}.

Models of the paper have the paper's settings: {papers}. The others have the settings recommended for them,
and what is left to choose is chosen on the training examples alone. `nearest distance` and `PCA residual`
classify nothing: they score how foreign an input is without looking at a label, and a model should tell
better than they do.

## What is compared on what
"""
_PROTOCOL = """\
- **Draws.** Every model gets the same draws of n training examples, and is asked about the same test inputs.
  Seeds: {seeds}.
{covid}- **Scaled** is after temperature scaling: log-probabilities are divided by the temperature that suits
  predictions of training examples left out of the fit. PNCA has such predictions from its own fit; every
  other model is fitted again, on all but one of {folds}. Without the word, a model is taken as it is.
- **Intervals** are 95 % percentile bootstrap intervals of the mean difference over the draws that both models
  have. With ten draws they are somewhat narrow, and nothing corrects for the number of comparisons.

**Measures.** *NLL*: mean negative log-likelihood. *Brier*: squared error of the class probabilities. *ECE*:
expected calibration error. *AUGRC*: share of answers that are given and wrong, averaged over how many are
given, the most confident first. *Rotated*: the test digits turned by {rotation:.0f}°. *OoD AUROC*: the
chance that a foreign input has a lower score than a familiar one, where the score is the confidence, the
model's evidence, or, as *own score*, whichever of the two has the higher mean AUROC. *FPR95*: share of
familiar inputs turned away, by own score, where 95 % of the foreign ones are. *OoD above .9*: share of
foreign inputs answered with a confidence above .9. Of accuracy and AUROC more is better, of all else less.
"""
_PROTOCOL_COVID = f"""\
- **COVID.** A draw is one of the {N_FOLDS} folds of a partition that never splits a patient. Folds share
  training images, so their differences are less independent than those of draws.
"""
_TARGETS_TEXT = """\
## Targets

What PNCA is meant to reach. Of {n}: {counts}.

*Best other* is the classifier with the best mean on that data set, or the model that the target names. Where
a target is to be at least as good, the interval of the difference must reach zero or lie beyond it. Means are
over all draws of a model, differences over common ones. A target that lacks fits, or two draws for an
interval, is not run; the targets in rank need every data set.
"""
_RANKS_TEXT = """\
## Mean ranks

Models are ranked at each n by their means over common draws; 1 is the best, and equals share a rank. Ranks
are averaged over n within a data set, then over data sets: {data_sets}. Measures of foreign inputs are
ranked where there are such. Only models that took part everywhere are ranked; the trivial scores are no
classifiers and are not.
"""
_DIFFERENCES_TEXT = """\
## Paired differences

PNCA less the other at n = {n}, or at the smallest n where there is no such: the mean over common draws and
its 95 % interval. **Bold**: the interval says that PNCA is better. *Italic*: that it is worse. Where scaled,
both are.
"""
_LOSSES_TEXT = """\
## Where PNCA loses

PNCA against every other model, on every data set at every n: a win or a loss if the whole interval is on one
side of zero, else a tie. The trivial scores count in OoD AUROC. Comparisons with fewer than two common draws
are left out.
"""
_TIMING = """\
## Seconds

Seconds are those of a single thread on {hardware}, and other fits may have run beside it. *fit s* is one fit,
without those that find the temperature; *predict s* is for all test inputs of the data set. A mark
{mark} means that draws were trained on a GPU (`--device cuda`).
"""


class Interval(NamedTuple):
    """A mean difference, PNCA less the other, and the ends of its interval."""

    mean: float
    low: float
    high: float

    def side(self, measure: Measure) -> str:
        """``"win"``, ``"tie"`` or ``"loss"`` by the side of zero it is on; nothing if that is not known."""
        if not np.isfinite(self.low):
            return ""
        if self.low <= 0 <= self.high:
            return "tie"
        return "win" if (self.low > 0) == measure.more else "loss"

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return signed(self.mean)
        # An end that is not zero shall not look like it.
        near = min(abs(self.low), abs(self.high))
        digits = next((d for d in (3, 4, 5) if near == 0 or round(near, d) > 0), 6)
        return f"{signed(self.mean, digits)} ({signed(self.low, digits)} to {signed(self.high, digits)})"


class Results:
    """The cells of one or several runs, by data set, training examples, model and test set.

    Parameters
    ----------
    rows : iterable of mapping
        One a cell and test set, and one a cell with its seconds and its device.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        groups: dict[tuple[Place, str, str], list[Row]] = {}
        for row in rows:
            place = (row["data"], row["n_train"])
            groups.setdefault((place, row["model"], row["test_set"]), []).append(row)
        self._frames = {key: Frame(given) for key, given in groups.items()}
        names = [*_ABOUT, *sorted({data for (data, _), _, _ in groups} - _ABOUT.keys())]
        self.places = sorted({place for place, _, _ in groups}, key=lambda p: (names.index(p[0]), p[1]))

    def sizes(self) -> dict[str, list[int]]:
        """Numbers of training examples by data set; the one that is shown first comes first."""
        found: dict[str, list[int]] = {}
        for data, n_train in self.places:
            found.setdefault(data, []).append(n_train)
        return {data: sorted(sizes, key=lambda n: (n != _FIRST_SIZE, n)) for data, sizes in found.items()}

    def models(self, *places: Place) -> list[str]:
        """Who took part in all of some places."""
        there = [{model for place, model, _ in self._frames if place == wanted} for wanted in places]
        return [model for model in CONTENDERS if all(model in models for models in there)]

    def rivals(self, place: Place) -> list[str]:
        """Who else classifies there."""
        return [model for model in self.models(place) if model != _PNCA and model not in TRIVIAL]

    def frame(self, place: Place, model: str, test_set: str) -> Frame:
        """The rows of a model on a test set."""
        return self._frames.get((place, model, test_set), Frame([]))

    def values(self, place: Place, model: str, measure: Measure) -> dict[int, float]:
        """A measure by draw, where it exists; as a classifier a trivial score does not."""
        column = measure.column
        if "{own}" in column:
            column = column.format(own=self._own_score(place, model))
        if model in TRIVIAL and measure.test_set != _SECONDS and not column.endswith("_evidence"):
            return {}
        given = self.frame(place, model, measure.test_set).by_repetition(column)
        return {draw: value for (draw,), value in given.items() if np.isfinite(value)}

    def array(self, place: Place, model: str, measure: Measure) -> NDArray[np.float64]:
        """A measure in each draw."""
        return np.array(list(self.values(place, model, measure).values()))

    def mean(self, place: Place, model: str, measure: Measure) -> float:
        """Mean of a measure over draws; NaN where there is none."""
        values = self.array(place, model, measure)
        return float(values.mean()) if len(values) else float("nan")

    def best(self, place: Place, measure: Measure, among: Sequence[str] | None = None) -> str | None:
        """The model with the best mean, of the rivals or of those given; None if none has the measure."""
        means = {m: self.mean(place, m, measure) for m in (self.rivals(place) if among is None else among)}
        known = {model: mean for model, mean in means.items() if np.isfinite(mean)}
        if not known:
            return None
        return (max if measure.more else min)(known, key=lambda model: known[model])

    def difference(self, place: Place, rival: str, measure: Measure) -> Interval | None:
        """PNCA less a rival over the draws that both have; None if they share none."""
        ours, theirs = (self.values(place, model, measure) for model in (_PNCA, rival))
        common = [ours[draw] - theirs[draw] for draw in sorted(ours.keys() & theirs.keys())]
        return Interval(*bootstrap_interval(common)) if common else None

    def mean_ranks(
        self, places: Sequence[Place], models: Sequence[str], measure: Measure
    ) -> dict[str, float]:
        """Mean rank of each model, from 1 for the best: over n within a data set, then over data sets.

        Models are ranked by their means over the draws that all of them have; equal ones share a rank.
        """
        by_data: dict[str, list[NDArray[np.float64]]] = {}
        for place in places:
            values = [self.values(place, model, measure) for model in models]
            common = sorted(set.intersection(*map(set, values))) if values else []
            if common:
                means = np.array([np.mean([given[draw] for draw in common]) for given in values])
                # The last digits of a mean depend on the order of its terms; they break no tie.
                ranks = rankdata(np.round(-means if measure.more else means, 12))
                by_data.setdefault(place[0], []).append(ranks)
        if not by_data or len(models) < 2:
            return {}
        ranks = np.mean([np.mean(given, axis=0) for given in by_data.values()], axis=0)
        return dict(zip(models, map(float, ranks), strict=True))

    def ranked(self) -> tuple[list[Place], list[str]]:
        """Where PNCA took part and all could, and the classifiers that took part in all of it."""
        places = [p for p in self.places if p[0] != _IMAGES and _PNCA in self.models(p)]
        return places, [m for m in self.models(*places) if m not in TRIVIAL] if places else []

    def _own_score(self, place: Place, model: str) -> str:
        if model in TRIVIAL:
            return "evidence"
        given = self.frame(place, model, "ood")
        confidence, evidence = (given.mean(f"ood_auroc_{score}") for score in ("confidence", "evidence"))
        return "evidence" if evidence > confidence else "confidence"  # NaN is not above anything


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A folder, as the document speaks of it."""

    name: str
    record: Mapping[str, Any]
    n_done: int
    devices: frozenset[str]


def write_benchmark(folders: Sequence[RunFolder], path: Path) -> Path:
    """Write the document, and its figures into a folder of the same name beside it.

    Parameters
    ----------
    folders : sequence of RunFolder
        Runs of the benchmark, whole or in parts. Of a cell that several have, the last folder's counts.
    path : Path
        A file name ending in ``.md``.

    Returns
    -------
    Path
        The document.

    Raises
    ------
    InvalidInputError
        If a folder holds another study, or none has a finished fit of PNCA.
    """
    if path.suffix != ".md":
        raise InvalidInputError(f"{path.name} must end in .md: the document is Markdown.")
    results, runs = _read(folders)
    if not any(_PNCA in results.models(place) for place in results.places):
        raise InvalidInputError(
            f"No fit of {_PNCA} is finished in {_listed([run.name for run in runs])}, and the document "
            f"compares it with the others: name a run with {_PNCA} too."
        )
    pages = [
        _introduction(results, runs, path),
        _targets_page(results),
        _ranks_page(results),
        _tables_page(results),
        _differences_page(results),
        _losses_page(results),
        _curves_page(results, path),
        _timing_page(results, runs),
    ]
    return write_text(make_folder(path.parent) / path.name, "\n".join(page for page in pages if page))


def _read(folders: Sequence[RunFolder]) -> tuple[Results, list[_Run]]:
    """Merge the finished cells of the folders."""
    cells: dict[tuple[Any, ...], list[Row]] = {}
    runs = []
    for folder in folders:
        run = folder.read_run()
        if run["study"] != "benchmark":
            raise InvalidInputError(
                f"{folder.path} holds a run of {run['study']}; the benchmark has a document of its own, so "
                "name folders of the benchmark alone."
            )
        found: dict[tuple[Any, ...], list[Row]] = {}
        for stem in run["cells"]:
            if (result := folder.find(stem)) is not None:
                # Those of the latest session are listed first; what an earlier one left gives way.
                found.setdefault(tuple(result.columns.values()), _rows(stem, result, run))
        devices = frozenset(str(rows[-1]["device"]) for rows in found.values())
        runs.append(_Run(name=folder.path.name, record=run, n_done=len(found), devices=devices))
        cells.update(found)
    return Results(row for rows in cells.values() for row in rows), runs


def _rows(stem: str, result: CellResult, run: Mapping[str, Any]) -> list[Row]:
    """The rows of a cell, and one with its seconds and its device."""
    seconds = {"test_set": _SECONDS, **result.details["seconds"], "device": _device(stem, result, run)}
    return [*result.rows(), {**result.columns, **seconds}]


def _device(stem: str, result: CellResult, run: Mapping[str, Any]) -> str:
    """Where a cell was trained, or nothing if it cannot be told."""
    model = result.columns["model"]
    if model in (*RIVALS, *TRIVIAL):
        return "cpu"  # whatever was asked for
    if "device" in result.details:
        return str(result.details["device"])
    # The name of a cell's file ends in a hash of what decides its result; the device is among that.
    for device in ("cpu", "cuda"):
        decides = [result.columns, model, {"device": device}, run["protocol"], run["versions"]]
        if stem.endswith(fingerprint(decides)):
            return device
    return ""


# What is compared


def _introduction(results: Results, runs: Sequence[_Run], path: Path) -> str:
    there = [model for model in CONTENDERS if any(model in results.models(place) for place in results.places)]
    rivals = [model for model in there if model != _PNCA and model not in TRIVIAL]
    n_rivals = f"{len(rivals)} other classifier{'s' * (len(rivals) != 1)}"
    folds = sorted({tuple(run.record["protocol"].get("temperature_folds", ())) for run in runs} - {()})
    parts = [
        _INTRODUCTION.format(
            n_rivals=n_rivals,
            rivals=_listed(rivals),
            papers=_listed([model for model in PAPER if model in there]),
        ),
        _data_table(results),
        *_missing(results),
        _PROTOCOL.format(
            seeds=" / ".join(dict.fromkeys(str(run.record["seeds"]) for run in runs)),
            covid=_PROTOCOL_COVID if _COVID in results.sizes() else "",
            folds=" / ".join(_folds_in_words(given) for given in folds) or "the folds",
            rotation=ROTATION,
        ),
        _made_by(runs, path),
    ]
    return "\n".join(parts)


def _folds_in_words(folds: Sequence[int]) -> str:
    return f"{max(folds)} folds" + (f" ({min(folds)} where examples are many)" if len(set(folds)) > 1 else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"


def _data_table(results: Results) -> str:
    rows = []
    for data, sizes in results.sizes().items():
        places = [(data, n) for n in sorted(sizes)]
        inputs, foreign = _ABOUT.get(data, ("", ""))
        n_foreign = _span(results, places, "ood")
        rows.append(
            [
                data,
                inputs,
                ", ".join(str(n) for _, n in places),
                str(len({draw for place in places for draw in _draws(results, place)})),
                _span(results, places, "test"),
                f"{n_foreign} {foreign}".strip() if n_foreign != NOTHING else NOTHING,
            ]
        )
    headings = ["data", "inputs", "n", "draws", "test inputs", "foreign inputs"]
    return Table(caption="", headings=headings, rows=rows).markdown() + "\n"


def _draws(results: Results, place: Place) -> set[int]:
    """The draws that any model has."""
    return {draw for model in results.models(place) for draw in results.values(place, model, _FIT)}


def _span(results: Results, places: Sequence[Place], test_set: str) -> str:
    """Numbers of examples of a test set, the least and the most."""
    sizes = {
        int(row["n"])
        for place in places
        for model in results.models(place)
        for row in results.frame(place, model, test_set)
        if "n" in row
    }
    return " to ".join(f"{n:,}" for n in sorted({min(sizes), max(sizes)})) if sizes else NOTHING


def _missing(results: Results) -> list[str]:
    """What a whole benchmark would have and these runs have not."""
    sizes, lines = results.sizes(), []
    for data in _ABOUT:
        there = {model for n in sizes.get(data, ()) for model in results.models((data, n))}
        wanted = ON_IMAGES if data == _IMAGES else CONTENDERS
        absent = [model for model in wanted if model not in there]
        if absent:
            lines.append(f"{data}: {'everything' if not there else ', '.join(absent)}")
    return [f"**Not in these runs:** {'; '.join(lines)}.\n"] if lines else []


def _made_by(runs: Sequence[_Run], path: Path) -> str:
    lines = ["Made by", "", "```sh", *(_command(run) for run in runs)]
    lines += [f"pnca report {' '.join(run.name for run in runs)} --out {path.as_posix()}", "```", ""]
    for run in runs:
        hardware, n_cells = run.record["hardware"], len(run.record["cells"])
        done = f"{n_cells} fits" if run.n_done >= n_cells else f"**{run.n_done} of {n_cells} fits**"
        failed = f", **{len(run.record['failed'])} failed**" if run.record["failed"] else ""
        versions = ", ".join(f"{name} {version}" for name, version in run.record["versions"].items())
        machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['system']}"
        lines.append(f"- `{run.name}`: {done}{failed}; {machine}; {versions}.")
    return "\n".join(lines) + "\n"


def _command(run: _Run) -> str:
    data_sets = list(run.record["protocol"].get("data", {}))
    words = [command(run.record).replace("pnca reproduce", "pnca", 1)]
    words += [f"--data-sets '{','.join(data_sets)}'"] if set(data_sets) != set(_ABOUT) and data_sets else []
    words += ["--data-dir DATA"] if {_MNIST, _IMAGES, _COVID} & set(data_sets) else []
    words += ["--device cuda"] if _is_gpu(run.devices) else []
    return " ".join([*words, f"--out {run.name}"])


def _is_gpu(devices: Iterable[str]) -> bool:
    return any(device.startswith("cuda") for device in devices)


# Targets


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of a target: whether it is met, None if that was not run, and the numbers that say so."""

    met: bool | None = None
    value: str = NOTHING
    other: str = NOTHING
    difference: str = NOTHING

    @property
    def verdict(self) -> str:
        """In words."""
        return {None: NOT_RUN, True: MET, False: NOT_MET}[self.met]


def _reaches(value: float, limit: float, *, more: bool, strictly: bool = False) -> bool | None:
    """Whether a value is on the better side of a limit, or at it; None if one of them is missing."""
    if not np.isfinite([value, limit]).all():
        return None
    # The last digits of a mean are rounding; they decide nothing.
    gain = np.round(value - limit if more else limit - value, 12)
    return bool(gain > 0 if strictly else gain >= 0)


def _at_least_as_good(measure: Measure) -> Callable[[Results, Place], Finding]:
    """Not worse than the best rival: the interval of the difference reaches zero or lies beyond it."""

    def test(results: Results, place: Place) -> Finding:
        rival, value = results.best(place, measure), results.mean(place, _PNCA, measure)
        if rival is None:
            return Finding(value=number(value, 4))
        found = results.difference(place, rival, measure) or Interval(*[float("nan")] * 3)
        return Finding(
            met=found.side(measure) != "loss" if np.isfinite(found.low) else None,
            value=number(value, 4),
            other=_who(results, place, measure, rival),
            difference=str(found),
        )

    return test


def _within(
    measure: Measure, limit: float, write: Callable[[float], str] = lambda value: number(value, 4)
) -> Callable[[Results, Place], Finding]:
    """On the better side of a limit; the best rival stands beside it."""

    def test(results: Results, place: Place) -> Finding:
        value = results.mean(place, _PNCA, measure)
        return Finding(
            met=_reaches(value, limit, more=measure.more),
            value=write(value),
            other=_who(results, place, measure, results.best(place, measure), write),
        )

    return test


def _lowest(measure: Measure) -> Callable[[Results, Place], Finding]:
    """No rival has a lower mean."""

    def test(results: Results, place: Place) -> Finding:
        rival, value = results.best(place, measure), results.mean(place, _PNCA, measure)
        best = results.mean(place, rival, measure) if rival else float("nan")
        return Finding(
            met=_reaches(value, best, more=measure.more),
            value=number(value, 4),
            other=_who(results, place, measure, rival),
        )

    return test


def _above_the_papers(results: Results, place: Place) -> Finding:
    value = results.mean(place, _PNCA, _ACCURACY)
    flat = (_MNIST, place[1])
    paper = results.mean(flat, _PAPERS_PNCA, _ACCURACY)
    return Finding(
        met=_reaches(value, paper + _GAIN, more=True),
        value=number(value, 4),
        other=_who(results, flat, _ACCURACY, _PAPERS_PNCA),
    )


def _far_below_the_papers(results: Results, place: Place) -> Finding:
    value = results.mean(place, _PNCA, _NLL)
    flat = (_MNIST, place[1])
    there = set(results.models(flat))
    best = results.best(flat, _NLL, PAPER) if there.issuperset(PAPER) else None
    paper = results.mean(flat, best, _NLL) if best else float("nan")
    return Finding(
        met=_reaches(value, _SHARE * paper, more=False),
        value=number(value, 4),
        other=f"{number(_SHARE, 2)} of {_who(results, flat, _NLL, best)}" if best else NOTHING,
    )


def _above_the_trivial(results: Results, place: Place) -> Finding:
    values = [results.mean(place, _PNCA, measure) for measure in (_BY_EVIDENCE, _BY_CONFIDENCE)]
    there = set(results.models(place))
    trivial = results.best(place, _BY_EVIDENCE, TRIVIAL) if there.issuperset(TRIVIAL) else None
    best = results.mean(place, trivial, _BY_EVIDENCE) if trivial else float("nan")
    return Finding(
        met=_reaches(float(np.min(values)), best, more=True, strictly=True),
        value=" / ".join(number(value, 4) for value in values),
        other=_who(results, place, _BY_EVIDENCE, trivial),
    )


def _first_in_rank(results: Results, measure: Measure) -> Finding:
    """The lowest mean rank over all data sets that have the measure; with fewer data sets it is not run."""
    places, models = results.ranked()
    ranks = results.mean_ranks(places, models, measure)
    if not {data for data, _ in places}.issuperset(_RANKED) or _PNCA not in ranks:
        return Finding()
    others = {model: rank for model, rank in ranks.items() if model != _PNCA}
    best = min(others, key=lambda model: others[model])
    return Finding(
        met=_reaches(ranks[_PNCA], others[best], more=False),
        value=number(ranks[_PNCA], 2),
        other=f"{number(others[best], 2)} ({best})",
    )


def _who(
    results: Results,
    place: Place,
    measure: Measure,
    model: str | None,
    write: Callable[[float], str] = lambda value: number(value, 4),
) -> str:
    """A model's mean and its name."""
    mean = float("nan") if model is None else results.mean(place, model, measure)
    return f"{write(mean)} ({model})" if np.isfinite(mean) else NOTHING


def _share(value: float) -> str:
    return per_cent([value], 3)


#: PNCA shall be this much more accurate than the paper's, and its NLL this share of the best of the paper's.
_GAIN, _SHARE = 0.05, 0.85

_ON_MNIST: dict[str, Callable[[Results, Place], Finding]] = {
    "Accuracy at least as good as the best other's": _at_least_as_good(_ACCURACY),
    f"Accuracy {number(_GAIN, 2)} above PNCA (paper) on MNIST": _above_the_papers,
    f"NLL at most {number(_SHARE, 2)} of the paper's best model on MNIST": _far_below_the_papers,
    "ECE at most .025": _within(_ECE, 0.025),
    "Letters above confidence .9: at most 0.2 %": _within(_ABOVE, 0.002, _share),
    "OoD AUROC by evidence at least .995": _within(_BY_EVIDENCE, 0.995),
    "OoD AUROC by confidence at least .99": _within(_BY_CONFIDENCE, 0.99),
    "Both (evidence / confidence) above the trivial scores": _above_the_trivial,
    "Rotated digits: lowest AUGRC of all": _lowest(_ROTATED_AUGRC),
}
_ON_COVID: dict[str, Callable[[Results, Place], Finding]] = {
    "AUROC at least as good as the best other's": _at_least_as_good(_AUROC),
    "NLL at least as good as the best other's": _at_least_as_good(_NLL),
    "Bones above confidence .9: at most 1 %": _within(_ABOVE, 0.01, _share),
    "OoD AUROC by evidence at least .99": _within(_BY_EVIDENCE, 0.99),
}
_OVERALL = {"Best mean rank in NLL": _NLL, "Best mean rank in OoD AUROC by own score": _BY_OWN}


def _findings(results: Results) -> dict[str, list[tuple[str, str, Finding]]]:
    """Each target with its n, by data set."""
    sizes = results.sizes().get(_COVID)
    covid = (_COVID, sizes[0] if sizes else 0)
    found = {
        data: [
            (text, str(n), test(results, (data, n)))
            for text, test in _ON_MNIST.items()
            for n in _TARGET_SIZES
        ]
        for data in (_MNIST, _IMAGES)
    }
    found[_COVID] = [
        (text, str(sizes[0]) if sizes else NOTHING, test(results, covid)) for text, test in _ON_COVID.items()
    ]
    found["Over data sets"] = [
        (text, NOTHING, _first_in_rank(results, measure)) for text, measure in _OVERALL.items()
    ]
    return found


def _targets_page(results: Results) -> str:
    found = _findings(results)
    counts = Counter(finding.verdict for given in found.values() for _, _, finding in given)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (MET, NOT_MET, NOT_RUN))
    lines = [_TARGETS_TEXT.format(n=counts.total(), counts=total)]
    for data, given in found.items():
        lines += [f"### {data}: targets", "", _targets_table(given), ""]
    return "\n".join(lines)


def _targets_table(given: Sequence[tuple[str, str, Finding]]) -> str:
    rows, earlier = [], ""
    for text, n, finding in given:
        verdict = f"**{NOT_MET}**" if finding.verdict == NOT_MET else finding.verdict
        rows.append(
            [text if text != earlier else "", n, finding.value, finding.other, finding.difference, verdict]
        )
        earlier = text
    headings = ["target", "n", "PNCA", "best other", "difference (95 % interval)", "verdict"]
    return Table(caption="", headings=headings, rows=rows).markdown()


# Ranks


def _ranks_page(results: Results) -> str:
    places, models = results.ranked()
    ranked = set(models)
    left_out = {model for place in places for model in results.rivals(place)} - ranked
    if len(models) < 2:
        return "## Mean ranks\n\nNo other model took part wherever PNCA did: there is nothing to rank.\n"
    lines = [_RANKS_TEXT.format(data_sets=_listed(list(dict.fromkeys(data for data, _ in places))))]
    if left_out:
        lines += [f"Left out for want of fits: {_listed(sorted(left_out, key=CONTENDERS.index))}.", ""]
    lines += [_rank_table(results, places, models), ""]
    images = [place for place in results.places if place[0] == _IMAGES and _PNCA in results.models(place)]
    takers = [model for model in results.models(*images) if model not in TRIVIAL] if images else []
    if len(takers) > 1:
        lines += [
            f"{_IMAGES} is not among them, because only networks that learn from augmented images take part. "
            "Ranked by itself:",
            "",
            _rank_table(results, images, takers),
            "",
        ]
    return "\n".join(lines)


def _rank_table(results: Results, places: Sequence[Place], models: Sequence[str]) -> str:
    ranks = {measure.name: results.mean_ranks(places, models, measure) for measure in _RANKED_BY}
    by_nll = ranks[_NLL.name]
    rows = [
        [_bold(model), *(number(given.get(model), 2) for given in ranks.values())]
        for model in sorted(models, key=lambda model: by_nll.get(model, np.inf))
    ]
    return Table(caption="", headings=["model", *ranks], rows=rows).markdown()


def _bold(model: str) -> str:
    return f"**{model}**" if model == _PNCA else model


# Tables


def _mean(values: NDArray[np.float64]) -> str:
    return number(float(values.mean())) if len(values) else NOTHING


def _seconds(values: NDArray[np.float64]) -> str:
    if not len(values):
        return NOTHING
    mean = float(values.mean())
    if mean < 0.005:
        return "< .01"
    return number(mean, 0 if mean >= 100 else 1 if mean >= 10 else 2)


_COLUMNS: dict[Measure, Callable[[NDArray[np.float64]], str]] = {
    _ACCURACY: mean_sd,
    _AUROC: mean_sd,
    _NLL: mean_sd,
    _NLL_SCALED: mean_sd,
    _BRIER: _mean,
    _ECE: _mean,
    _ECE_SCALED: _mean,
    _AUGRC: _mean,
    _ROTATED: _mean,
    _ROTATED_AUGRC: _mean,
    _BY_CONFIDENCE: _mean,
    _BY_OWN: _mean,
    _FPR95: _mean,
    _ABOVE: lambda values: per_cent(values, 2),
    _FIT: _seconds,
    _PREDICT: _seconds,
}


def _tables_page(results: Results) -> str:
    lines = ["## Every data set", "", "Sorted by NLL.", ""]
    for data, sizes in results.sizes().items():
        lines += [f"### {data}", ""]
        for i, n in enumerate(sizes):
            text = f"{_repetitions(results, (data, n))}\n\n{_data_set_table(results, (data, n))}\n"
            lines.append(text if i == 0 else _folded(f"n = {n}", text))
    return "\n".join(lines)


def _data_set_table(results: Results, place: Place) -> str:
    models = sorted(results.models(place), key=lambda m: _nan_last(results.mean(place, m, _NLL)))
    columns = {}
    for measure, write in _COLUMNS.items():
        cells = [write(results.array(place, model, measure)) for model in models]
        if any(cell != NOTHING for cell in cells):
            columns[measure.name] = cells
    if _FIT.name in columns:
        marks = [_GPU_MARK if _is_gpu(_devices(results, place, model)) else "" for model in models]
        columns[_FIT.name] = [cell + mark for cell, mark in zip(columns[_FIT.name], marks, strict=True)]
    rows = [[_bold(model), *cells] for model, *cells in zip(models, *columns.values(), strict=True)]
    return Table(caption="", headings=["model", *columns], rows=rows).markdown()


def _nan_last(value: float) -> float:
    return value if np.isfinite(value) else np.inf


def _devices(results: Results, place: Place, model: str) -> set[str]:
    return {row["device"] for row in results.frame(place, model, _SECONDS)}


def _repetitions(results: Results, place: Place) -> str:
    """Over how many draws the means are taken, and who has fewer."""
    counts = {model: len(results.values(place, model, _FIT)) for model in results.models(place)}
    most = max(counts.values())
    what = f"{most} draw{'s' * (most != 1)}"
    if place[0] == _COVID:
        n_partitions = 1 + max(_draws(results, place)) // N_FOLDS
        what = f"{most} fold{'s' * (most != 1)} of {n_partitions} partition{'s' * (n_partitions != 1)}"
    fewer = [f"{model} {count}" for model, count in counts.items() if count < most]
    if len(fewer) > _FEW_NAMES:
        fewer = [f"{len(fewer)} of {len(counts)} models, at least {min(counts.values())}"]
    note = f" (fewer: {', '.join(fewer)})" if fewer else ""
    return f"n = {place[1]}, mean ± standard deviation over {what}{note}."


def _folded(summary: str, text: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n</details>\n"


# Differences


def _differences_page(results: Results) -> str:
    lines = [_DIFFERENCES_TEXT.format(n=_FIRST_SIZE)]
    for data, sizes in results.sizes().items():
        place = (data, sizes[0])
        others = [model for model in results.models(place) if model != _PNCA]
        columns = {
            measure.name: [_marked(results, place, model, measure) for model in others]
            for measure in _DIFFERENCES
        }
        columns = {name: cells for name, cells in columns.items() if any(cell != NOTHING for cell in cells)}
        if columns:
            rows = list(map(list, zip(others, *columns.values(), strict=True)))
            table = Table(caption="", headings=["PNCA less", *columns], rows=rows).markdown()
            lines += [f"### {data}: differences at n = {place[1]}", "", table, ""]
    return "\n".join(lines)


def _marked(results: Results, place: Place, rival: str, measure: Measure) -> str:
    found = results.difference(place, rival, measure)
    if found is None:
        return NOTHING
    mark = {"win": "**", "loss": "*"}.get(found.side(measure), "")
    return f"{mark}{found}{mark}"


# Losses


def _losses_page(results: Results) -> str:
    counts = {measure: Counter[str]() for measure in _LOSSES}
    losses = []
    for place in results.places:
        others = [model for model in results.models(place) if model != _PNCA]
        for measure in _LOSSES:
            for rival in others:
                found = results.difference(place, rival, measure)
                side = found.side(measure) if found else ""
                counts[measure][side] += 1
                if side == "loss":
                    losses.append([place[0], str(place[1]), rival, measure.name, str(found)])
    rows = [
        [measure.name, *(str(given[side]) for side in ("win", "tie", "loss"))]
        for measure, given in counts.items()
    ]
    lines = [
        _LOSSES_TEXT,
        Table(caption="", headings=["measure", "wins", "ties", "losses"], rows=rows).markdown(),
        "",
    ]
    if not losses:
        return "\n".join([*lines, "No loss.", ""])
    headings = ["data", "n", "other", "measure", "PNCA less the other"]
    table = Table(caption="", headings=headings, rows=losses).markdown() + "\n"
    is_long = len(losses) > _LONG_LIST
    return "\n".join([*lines, _folded(f"The {len(losses)} losses", table) if is_long else table])


# Curves


def _curves_page(results: Results, path: Path) -> str:
    lines = []
    for data in _CURVES:
        sizes = sorted(results.sizes().get(data, []))
        if len(sizes) > 1:
            name = f"{data.lower()}.png"
            place = make_folder(path.parent / path.stem) / name
            save_figure(curves_figure(results, data, sizes), place)
            lines += [f"![{data} by training examples]({path.stem}/{name})", ""]
    if not lines:
        return ""
    note = "Lines are means and bands one standard deviation over draws. The axis of n is logarithmic."
    return "\n".join(["## Learning curves", "", *lines, note, ""])


def curves_figure(results: Results, data: str, sizes: Sequence[int]) -> "Figure":
    """Draw accuracy, NLL, ECE and OoD AUROC of the main contenders over the training examples.

    Parameters
    ----------
    results : Results
        Of the runs.
    data : str
        Which data set.
    sizes : sequence of int
        Numbers of training examples, the fewest first.

    Returns
    -------
    Figure
    """
    models = [model for model in _MAIN if any(model in results.models((data, n)) for n in sizes)]
    panels = [
        Panel(
            title=f"{title} ({'higher' if measure.more else 'lower'} is better)",
            x=sizes,
            lines={model: _lines(results, data, sizes, model, measure) for model in models},
            x_label="training examples",
            y_label=measure.name,
        )
        for title, measure in _PANELS.items()
    ]
    figure = panels_figure(panels, data, n_columns=2)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_xticks(list(sizes), [str(n) for n in sizes])
        axes.minorticks_off()
        axes.set_xlim(sizes[0] / 1.12, sizes[-1] * 1.12)
        for model, band in zip(models, axes.collections, strict=True):
            band.set_alpha(_BAND if model == _PNCA else _BAND / 3)  # seven of them cover each other
    return figure


def _lines(
    results: Results, data: str, sizes: Sequence[int], model: str, measure: Measure
) -> NDArray[np.float64]:
    """A measure by draw and n; NaN where it does not exist."""
    values = [results.values((data, n), model, measure) for n in sizes]
    draws = sorted({draw for given in values for draw in given})
    return np.array([[given.get(draw, np.nan) for given in values] for draw in draws]).reshape(-1, len(sizes))


# Seconds


def _timing_page(results: Results, runs: Sequence[_Run]) -> str:
    machines = dict.fromkeys(run.record["hardware"]["processor"] for run in runs)
    lines = [_TIMING.format(hardware=_listed(list(machines)), mark=_GPU_MARK)]
    devices = Counter(
        device
        for place in results.places
        for model in results.models(place)
        for device in (row["device"] for row in results.frame(place, model, _SECONDS))
    )
    if devices[""]:
        lines.append(f"Of {devices['']:,} fits it cannot be told, and they have no mark.\n")
    return "\n".join(lines)
