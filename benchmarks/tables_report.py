"""Write docs/tables.md from the cells that ``benchmarks/tables.py`` measured."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, t, wilcoxon

from tables import MODELS, SIZES, TUNING

FloatArray = NDArray[np.float64]
Cells = dict[tuple[str, str, int, str], dict[str, Any]]

OURS, CONSTANT = "pnca", "class shares"
RIVALS = [name for name in MODELS if name not in (OURS, CONSTANT)]
PARTS = {"tuning": "the 15 tables that the method was set on", "final": "the 15 others, looked at once"}
ROWS = {"100": "100 rows", "half": "half of the rows"}
#: Measures, how they are called, and whether less is better.
MEASURES = {
    "nll_calibrated": ("NLL", True),
    "nll": ("NLL as it is", True),
    "accuracy": ("accuracy", False),
    "auroc": ("AUROC", False),
}


class Part(NamedTuple):
    """Tables of one part, at one size, of which every model has every draw."""

    names: list[str]
    n_draws: int
    cells: Cells
    size: str

    def values(self, model: str, measure: str) -> FloatArray:
        """A measure (tables, draws)."""
        return np.array(
            [
                [self.cells[name, self.size, draw, model][measure] for draw in range(self.n_draws)]
                for name in self.names
            ]
        )

    def means(self, models: Sequence[str], measure: str) -> FloatArray:
        """A measure (tables, models), averaged over the draws."""
        return np.stack([self.values(model, measure).mean(axis=1) for model in models], axis=1)


def read(path: Path) -> Cells:
    """All cells, by table, size, draw and model."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {(c["table"], c["size"], c["draw"], c["model"]): c for c in map(json.loads, lines)}


def parts_of(cells: Cells, n_draws: dict[str, int]) -> tuple[dict[tuple[str, str], Part], list[str]]:
    """The four parts, and the cells that are missing; tables that lack one are left out."""
    names = sorted({name for name, *_ in cells})
    of_part = {"tuning": [n for n in names if n in TUNING], "final": [n for n in names if n not in TUNING]}
    found, missing = {}, []
    for part, size in ((part, size) for part in PARTS for size in SIZES):
        complete = []
        for name in of_part[part]:
            keys = [(name, size, draw, model) for draw in range(n_draws[size]) for model in MODELS]
            lacking = [key for key in keys if key not in cells]
            missing += [", ".join(map(str, key)) for key in lacking]
            if not lacking:
                complete.append(name)
        if complete:
            found[part, size] = Part(complete, n_draws[size], cells, size)
    return found, missing


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number, in their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, corrected, least = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = least
    return corrected


def comparison(part: Part, measure: str) -> dict[str, dict[str, float]]:
    """For each model its mean, mean rank, tables on which ours is better, and Holm's p of Wilcoxon's test."""
    models, (_, is_loss) = [OURS, *RIVALS], MEASURES[measure]
    means = part.means(models, measure)
    ranks = np.array([rankdata(row if is_loss else -row) for row in means]).mean(axis=0)
    losses = means if is_loss else -means
    p_values = holm([float(wilcoxon(losses[:, 0], losses[:, k]).pvalue) for k in range(1, len(models))])
    found = {}
    for k, model in enumerate(models):
        found[model] = {"mean": means[:, k].mean(), "rank": ranks[k]}
        if k:
            better = float((losses[:, 0] < losses[:, k]).sum())
            found[model] |= {"better": better, "p": p_values[k - 1]}
    return found


def number(value: float) -> str:
    """A number with three digits, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    marks = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, marks, *rows])


def ranks(part: Part) -> str:
    """Mean and mean rank of every model in every measure."""
    of_measure = {measure: comparison(part, measure) for measure in MEASURES}
    head = ["model", *(f"{name} (rank)" for name, _ in MEASURES.values()), "seconds"]
    rows = []
    for model in [OURS, *RIVALS]:
        cells = [
            f"{number(found[model]['mean'])} ({found[model]['rank']:.2f})" for found in of_measure.values()
        ]
        seconds = float(np.median(part.values(model, "seconds")))
        rows.append([f"**{model}**" if model == OURS else model, *cells, f"{seconds:.1f}"])
    return table(head, rows)


def against(part: Part) -> str:
    """How often ours is better than each rival, and whether that may be luck."""
    of_measure = {m: comparison(part, m) for m in ("nll_calibrated", "accuracy", "auroc")}
    head = ["rival", *(f"{MEASURES[measure][0]}: better on, p" for measure in of_measure)]
    rows = []
    for rival in RIVALS:
        of_rival = [found[rival] for found in of_measure.values()]
        rows.append([rival, *(f"{f['better']:.0f} of {len(part.names)}, {number(f['p'])}" for f in of_rival)])
    return table(head, rows)


def every_table(part: Part) -> str:
    """NLL of ours on every table, and of the best rival, logistic regression and the class shares."""
    rows = []
    for name, values in zip(part.names, part.values(OURS, "nll_calibrated"), strict=True):
        one = part._replace(names=[name])
        rivals = {rival: one.values(rival, "nll_calibrated")[0] for rival in RIVALS}
        best = min(rivals, key=lambda rival: float(rivals[rival].mean()))
        difference = interval(values - rivals[best])
        best_of_all = f"{number(rivals[best].mean())} ({best})"
        of_line = number(rivals["logistic regression"].mean())
        shares = one.values(CONSTANT, "nll_calibrated")[0].mean()
        row = [name, number(values.mean()), best_of_all, difference, of_line, f"{values.mean() / shares:.2f}"]
        rows.append(row)
    head = ["table", OURS, "best rival", "difference", "logistic regression", "over class shares"]
    return table(head, rows)


def interval(differences: FloatArray) -> str:
    """Mean of differences (draws,), and a 95 % interval by Student's t from five draws on."""
    mean, n = differences.mean(), len(differences)
    if n < 5:
        return f"{mean:+.3f}"
    half = t.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5
    return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"


def first_screen(found: dict[tuple[str, str], Part]) -> str:
    """The targets, and whether they are met."""
    rows = []
    for (part, size), of in found.items():
        nll = comparison(of, "nll_calibrated")
        best = min(RIVALS, key=lambda rival: nll[rival]["rank"])
        worse = [
            f"{rival} ({MEASURES[m][0]})"
            for m in ("accuracy", "auroc")
            for rival, its in comparison(of, m).items()
            if rival != OURS and its["p"] < 0.05 and its["better"] < len(of.names) / 2
        ]
        over = (of.means([OURS], "nll_calibrated") / of.means([CONSTANT], "nll_calibrated")).max()
        wins = f"{nll['logistic regression']['better']:.0f} of {len(of.names)}"
        ours, theirs = f"{nll[OURS]['rank']:.2f}", f"{nll[best]['rank']:.2f} ({best})"
        where = f"{part}, {ROWS[size]}, {of.n_draws} draw{'s' * (of.n_draws > 1)}"
        rows.append([where, ours, theirs, ", ".join(worse) or "none", wins, f"{over:.2f}"])
    head = [
        "tables",
        "rank in NLL",
        "best rival's",
        "significantly worse than",
        "better than logistic regression",
    ]
    head.append("NLL over the class shares' at most")
    return table(head, rows)


TEXT = """# Tables: the default against its rivals

{missing}`PNCAClassifier()` on 30 real tables, with 100 rows and with half of the rows, in random draws.
NLL is the mean negative log-likelihood after one temperature for each model, fitted to its own out-of-fold
probabilities; *as it is* is without. Ranks are among these eight models, 1 the best.

{screen}

The constants of the default were set on the first 15 tables. On the other 15 it was run once, at commit
`{commit}`. *Significantly worse* is by Wilcoxon's test over the tables at .05, corrected by Holm for the
seven rivals. Categories are one-hot and holes the median, for all but CatBoost and LightGBM, which get the
table as it is. Seconds are of the fit, the fits out of fold that the temperature needs (ours has its own),
and the prediction, of one core.
"""
COMMANDS = """
## How these numbers were made

```sh
pip install catboost lightgbm
python benchmarks/tables.py --part tuning --out {cells}
python benchmarks/tables.py --part final --out {cells}
python benchmarks/tables_report.py {cells} --commit {commit} --draws {draws} --out docs/tables.md
```
"""


def write(cells: Cells, commit: str, n_draws: dict[str, int], source: str) -> str:
    """The document."""
    found, missing = parts_of(cells, n_draws)
    warning = (
        f"**{len(missing)} cells are missing**; tables that lack one are left out.\n\n" if missing else ""
    )
    text = TEXT.format(missing=warning, screen=first_screen(found), commit=commit)
    for (part, size), of in found.items():
        text += f"\n## {part.capitalize()}: {PARTS[part]}, {ROWS[size]}\n\n{ranks(of)}\n\n{against(of)}\n"
        text += f"\nNLL of each table, and of the model that is best there:\n\n{every_table(of)}\n"
    draws = " ".join(str(n_draws[size]) for size in SIZES)
    return text + COMMANDS.format(cells=source, commit=commit, draws=draws)


def main() -> None:
    """Read the cells and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", type=Path)
    parser.add_argument("--commit", required=True, help="at which the default was measured")
    parser.add_argument(
        "--draws", type=int, nargs=len(SIZES), default=[5, 5], help=f"of {' and '.join(SIZES)}"
    )
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    n_draws = dict(zip(SIZES, given.draws, strict=True))
    text = write(read(given.cells), given.commit, n_draws, given.cells.as_posix())
    given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
