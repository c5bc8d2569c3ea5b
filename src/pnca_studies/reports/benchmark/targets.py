"""What PNCA is meant to reach, and whether it does."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pnca_studies.experiments.contenders import PAPER, TRIVIAL
from pnca_studies.reports.benchmark.measures import (
    ABOVE,
    ACCURACY,
    AUROC,
    BY_CONFIDENCE,
    BY_EVIDENCE,
    BY_OWN,
    ECE,
    NLL,
    ROTATED_AUGRC,
    Measure,
)
from pnca_studies.reports.benchmark.results import ABOUT, COVID, IMAGES, MNIST, PNCA, Place, Results
from pnca_studies.reports.benchmark.writing import listed
from pnca_studies.reports.tables import NOTHING, Table, number, per_cent

MET, NOT_MET, NOT_RUN = "met", "not met", "not run"

_PAPERS_PNCA = "PNCA (paper)"
#: Data sets of the mean ranks: those that every contender takes part in.
_RANKED = tuple(name for name in ABOUT if name != IMAGES)
#: Training examples of the targets on MNIST.
_TARGET_SIZES = (100, 200, 400)

_TARGETS_TEXT = """\
## Targets

What PNCA is meant to reach. {counts}

*Best other* is the classifier with the best mean on that data set, or the model that the target names. Where
a target is to be at least as good, the interval of the difference must reach zero or lie beyond it: it is met
if the data do not show PNCA to be worse, which is no test of equivalence. Means are over all draws of a
model, differences over common ones. A target that lacks fits, or two draws for an interval, is not run and
left out below; the targets in rank need every data set.
"""


_NOTHING_RUN = """\
## Targets

None of the targets can be tested with these fits: they are of MNIST with {sizes} images, of COVID, and
of ranks over all data sets.
"""


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


def _four_digits(value: float) -> str:
    return number(value, 4)


def _share(value: float) -> str:
    return per_cent([value], 3)


def _who(
    results: Results,
    place: Place,
    measure: Measure,
    model: str | None,
    write: Callable[[float], str] = _four_digits,
) -> str:
    """A model's mean and its name."""
    mean = results.mean(place, model, measure)
    return f"{write(mean)} ({model})" if np.isfinite(mean) else NOTHING


def _at_least_as_good(results: Results, place: Place, measure: Measure) -> Finding:
    """Not worse than the best baseline: the interval of the difference reaches zero or lies beyond it."""
    best, value = results.best(place, measure), number(results.mean(place, PNCA, measure), 4)
    found = results.difference(place, best, measure) if best else None
    if best is None or found is None:
        return Finding(value=value, other=_who(results, place, measure, best))
    return Finding(
        met=found.side(measure) != "loss" if np.isfinite(found.low) else None,
        value=value,
        other=_who(results, place, measure, best),
        difference=str(found),
    )


def _within(
    results: Results,
    place: Place,
    measure: Measure,
    limit: float | None = None,
    write: Callable[[float], str] = _four_digits,
) -> Finding:
    """On the better side of a limit, or at it; by default the limit is the mean of the best baseline."""
    value, best = results.mean(place, PNCA, measure), results.best(place, measure)
    return Finding(
        met=_reaches(
            value, results.mean(place, best, measure) if limit is None else limit, more=measure.more
        ),
        value=write(value),
        other=_who(results, place, measure, best, write),
    )


def _above_the_papers(results: Results, place: Place) -> Finding:
    value, flat = results.mean(place, PNCA, ACCURACY), (MNIST, place[1])
    return Finding(
        met=_reaches(value, results.mean(flat, _PAPERS_PNCA, ACCURACY) + _GAIN, more=True),
        value=number(value, 4),
        other=_who(results, flat, ACCURACY, _PAPERS_PNCA),
    )


def _far_below_the_papers(results: Results, place: Place) -> Finding:
    value, flat = results.mean(place, PNCA, NLL), (MNIST, place[1])
    best = _best_if_all_there(results, flat, NLL, PAPER)
    return Finding(
        met=_reaches(value, _SHARE * results.mean(flat, best, NLL), more=False),
        value=number(value, 4),
        other=f"{number(_SHARE, 2)} of {_who(results, flat, NLL, best)}" if best else NOTHING,
    )


def _above_the_trivial(results: Results, place: Place) -> Finding:
    values = [results.mean(place, PNCA, measure) for measure in (BY_EVIDENCE, BY_CONFIDENCE)]
    trivial = _best_if_all_there(results, place, BY_EVIDENCE, TRIVIAL)
    best = results.mean(place, trivial, BY_EVIDENCE)
    return Finding(
        met=_reaches(float(np.min(values)), best, more=True, strictly=True),
        value=" / ".join(number(value, 4) for value in values),
        other=_who(results, place, BY_EVIDENCE, trivial),
    )


def _best_if_all_there(results: Results, place: Place, measure: Measure, models: Sequence[str]) -> str | None:
    """The best of some models, if all of them took part: the best may be the one that is missing."""
    return results.best(place, measure, models) if set(models) <= set(results.models(place)) else None


def _first_in_rank(results: Results, measure: Measure, *, first_size_only: bool) -> Finding:
    """The lowest mean rank over all data sets that have the measure; with fewer data sets it is not run."""
    places, models = results.ranked(first_size_only=first_size_only)
    ranks = results.mean_ranks(places, models, measure)
    if not {data for data, _ in places}.issuperset(_RANKED) or PNCA not in ranks:
        return Finding()
    others = {model: rank for model, rank in ranks.items() if model != PNCA}
    best = min(others, key=lambda model: others[model])
    return Finding(
        met=_reaches(ranks[PNCA], others[best], more=False),
        value=number(ranks[PNCA], 2),
        other=f"{number(others[best], 2)} ({best})",
    )


#: PNCA shall be this much more accurate than the paper's, and its NLL this share of the best of the paper's.
_GAIN, _SHARE = 0.05, 0.85

_ON_MNIST: Mapping[str, Callable[[Results, Place], Finding]] = {
    "Accuracy at least as good as the best other's": partial(_at_least_as_good, measure=ACCURACY),
    f"Accuracy {number(_GAIN, 2)} above PNCA (paper) on MNIST": _above_the_papers,
    f"NLL at most {number(_SHARE, 2)} of the paper's best model on MNIST": _far_below_the_papers,
    "ECE at most .025": partial(_within, measure=ECE, limit=0.025),
    "Letters above confidence .9: at most 0.2 %": partial(_within, measure=ABOVE, limit=0.002, write=_share),
    "OoD AUROC by evidence at least .995": partial(_within, measure=BY_EVIDENCE, limit=0.995),
    "OoD AUROC by confidence at least .99": partial(_within, measure=BY_CONFIDENCE, limit=0.99),
    "Both (evidence / confidence) above the trivial scores": _above_the_trivial,
    "Rotated digits: lowest AUGRC of all": partial(_within, measure=ROTATED_AUGRC),
}
_ON_COVID: Mapping[str, Callable[[Results, Place], Finding]] = {
    "AUROC at least as good as the best other's": partial(_at_least_as_good, measure=AUROC),
    "NLL at least as good as the best other's": partial(_at_least_as_good, measure=NLL),
    "Bones above confidence .9: at most 1 %": partial(_within, measure=ABOVE, limit=0.01, write=_share),
    "OoD AUROC by evidence at least .99": partial(_within, measure=BY_EVIDENCE, limit=0.99),
}
_OVERALL = {"Best mean rank in NLL": NLL, "Best mean rank in OoD AUROC by own score": BY_OWN}


def findings(results: Results) -> dict[str, list[tuple[str, str, Finding]]]:
    """Test every target: by data set its text, its n, and what came of it."""
    sizes = results.sizes().get(COVID)
    covid = (COVID, sizes[0] if sizes else 0)
    found = {
        data: [
            (text, str(n), test(results, (data, n)))
            for text, test in _ON_MNIST.items()
            for n in _TARGET_SIZES
        ]
        for data in (MNIST, IMAGES)
    }
    found[COVID] = [
        (text, str(sizes[0]) if sizes else NOTHING, test(results, covid)) for text, test in _ON_COVID.items()
    ]
    found["Over data sets"] = [
        (f"{text}{where}", NOTHING, _first_in_rank(results, measure, first_size_only=alone))
        for where, alone in (("", False), (", at the size shown first", True))
        for text, measure in _OVERALL.items()
    ]
    return found


def targets_page(results: Results) -> str:
    """List the targets with what came of them."""
    found = findings(results)
    counts = Counter(finding.verdict for given in found.values() for _, _, finding in given)
    if counts[NOT_RUN] == counts.total():
        return _NOTHING_RUN.format(sizes=listed(list(map(str, _TARGET_SIZES))))
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (MET, NOT_MET, NOT_RUN))
    lines = [_TARGETS_TEXT.format(counts=f"Of {counts.total()}: {total}.")]
    for data, given in found.items():
        if was_run := [target for target in given if target[2].verdict != NOT_RUN]:
            lines += [f"### {data}: targets", "", _targets_table(was_run), ""]
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
    return Table(headings=headings, rows=rows).markdown()
