"""Write docs/pool.md, and its figures, from what ``benchmarks/pool_study.py`` measured."""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from pnca.models.experts import _TREES, _TREES_IN_FOLDS
from pool_study import INSIDE, LEFT_OUT, NETWORK, PARTS, POOL, POWERS
from tables import TUNING

FloatArray = NDArray[np.float64]
Found = dict[str, Any]
Cells = dict[tuple[str, str, int], Found]

WHOLE = " + ".join(PARTS)
UNSEEN = ("iris", "wine", "digits")
#: Ten tables on which a constant would be set, and five on which it would be checked, three times.
ROTATIONS = [(TUNING[:5], TUNING[5:]), (TUNING[5:10], TUNING[:5] + TUNING[10:]), (TUNING[10:], TUNING[:10])]
#: What constants are called.
NAMES = {
    "n_particles": f"particles ({NETWORK['n_particles']})",
    "hidden_layer_sizes": f"width of the hidden layer ({NETWORK['hidden_layer_sizes'][0]})",
    "learning_rate": f"learning rate ({NETWORK['learning_rate']:g})",
    "max_epochs": f"epochs ({NETWORK['max_epochs']})",
    "n_components": f"dimensions of the latent space ({NETWORK['n_components']})",
    "bandwidth": f"bandwidth of the training ({NETWORK['bandwidth']:g})",
    "n_folds": f"folds ({NETWORK['n_folds']})",
    "trees": f"trees ({_TREES}, and {_TREES_IN_FOLDS} in each fold)",
    "INPUT_DECAY": "decay of the input factor (8)",
    "_BACKGROUND_SHARE": "reference of the background (e^-5 of the typical mass)",
    "shrinkage": "spreads of the priors of bandwidth, background and epoch (.35, 1, 2)",
    "_COUNT": "trust in experts beforehand (2, divided by the classes less one)",
    "_NEAR": "where the say begins to fall (1/4)",
    "_SLOPE": "its slope (1/4)",
    "_CURVE": "its curve (1/40)",
}

TEXT = """# What the pool adds

The default on rows of numbers pools neighbours, a line and a forest; [the method](method.md) says how. Here
is what each part adds, what caution costs, and what the constants matter. Tables are the 15 on which the
method was set, with 100 rows in {draws} draws; a class is held out of iris and wine (50 rows) and of digits
(100), another in each of {unseen_draws} draws. What holds on tables that were not looked at is in
[tables](tables.md).

## Parts

![Mean NLL of every pool of the three parts](images/pool_parts.png)

Each pool has its own weights, learnt out of fold. *The whole is better on*: tables on which the mean NLL of
all three is lower. *Sure* is as below.

{parts}

## Kinds that were left out

Particles of other kinds, with weights learnt in the same way: *alone*; *instead* of the neighbours, beside
line and forest; and *added* to all three parts. A deep softmax is an ensemble of networks of the same size;
linear neighbours have no hidden layer. A piecewise linear column (Gorishniy et al., 2022) is encoded by eight
bins, so that the last kind is near to ModernNCA (Ye et al., 2024), a deep NCA for tables with numeric
embeddings. *Better on*: tables on which the mean NLL is lower than that of the default.

{kinds}

## Caution

The say falls with the distance from every class. Here its logarithm is multiplied by a power: zero is a pool
without it, one the default. *Sure* is the share of the inputs of the unseen class that get a confidence above
.9.

![NLL against sure answers on classes that were never seen](images/pool_caution.png)

The numbers beside the points of wine are the powers.

{caution}

The targets that were set are at most 15 % on iris and wine and 5 % on digits.

## Constants

Each constant halved and doubled: the difference of the mean NLL from the default's, which is {whole}. The
tables are split three times into ten, on which a constant would be set, and five, on which it would be
checked.

{constants}

## How these numbers were made

```sh
python benchmarks/pool_study.py --kinds table --draws {draws} --out {cells}
python benchmarks/pool_study.py --kinds unseen --draws {unseen_draws} --out {cells}
python benchmarks/pool_report.py {cells}
```
"""


def number(value: float) -> str:
    """A number with three digits, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    marks = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, marks, *rows])


def read(path: Path) -> Cells:
    """What was found by every way, by kind, name and draw."""
    found: Cells = {}
    for cell in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        found.setdefault((cell["kind"], cell["name"], cell["draw"]), {}).update(cell["ways"])
    return found


def means(found: Cells, names: tuple[str, ...], way: str, what: str) -> FloatArray:
    """A measure of a way on each of these, averaged over the draws: (names,)."""
    values = {name: [its[way][what] for (_, one, _), its in found.items() if one == name] for name in names}
    return np.array([np.mean(values[name]) for name in names])


def parts(found: Cells) -> str:
    """All pools of the parts."""
    ways = [way for way in next(iter(found.values())) if set(way.split(" + ")) <= set(PARTS)]
    whole, rows = means(found, TUNING, WHOLE, "nll"), []
    for way in sorted(ways, key=lambda way: (way.count("+"), way)):
        nll = means(found, TUNING, way, "nll")
        better = "" if way == WHOLE else f"{(whole < nll).sum()} of {len(TUNING)}"
        sure = [f"{means(found, (name,), way, 'sure')[0]:.1%}" for name in UNSEEN]
        accuracy = means(found, TUNING, way, "accuracy").mean()
        rows.append([way, number(nll.mean()), number(accuracy), better, *sure])
    return table(["pool", "NLL", "accuracy", "the whole is better on", *(f"sure: {n}" for n in UNSEEN)], rows)


def kinds(found: Cells) -> str:
    """NLL of the kinds that were left out, and the tables on which they would be better."""
    whole, rows = means(found, TUNING, WHOLE, "nll"), []
    for name in (*LEFT_OUT, "all of them"):
        row = [name]
        for way in ("alone", "instead", "added"):
            key = "all" if name == "all of them" else f"{name}, {way}"
            if name == "all of them" and way != "added":
                row += ["", ""]
                continue
            nll = means(found, TUNING, key, "nll")
            row += [number(nll.mean()), f"{(nll < whole).sum()}"]
        rows.append(row)
    head = ["kind", "alone", "better on", "instead", "better on", "added", "better on"]
    return table(head, rows)


def caution(found: Cells) -> str:
    """What the power of the say does."""
    rows = []
    for power in POWERS:
        way = f"say to the power of {power:g}"
        row = [f"{power:g}", number(means(found, TUNING, way, "nll").mean())]
        for name in UNSEEN:
            row.append(number(means(found, (name,), way, "nll")[0]))
            row.append(f"{means(found, (name,), way, 'sure')[0]:.1%}")
        rows.append(row)
    head = ["power", "tables: NLL", *(word for name in UNSEEN for word in (f"{name}: NLL", "sure"))]
    return table(head, rows)


def constants(found: Cells) -> str:
    """What halving and doubling each constant does to the mean NLL of ten tables and of the other five."""
    whole, rows = dict(zip(TUNING, means(found, TUNING, WHOLE, "nll"), strict=True)), []
    for key in (*NETWORK, *INSIDE, *POOL):
        row = [NAMES[key]]
        for factor in (0.5, 2.0):
            changed = means(found, TUNING, f"{key} times {factor:g}", "nll")
            change = {name: value - whole[name] for name, value in zip(TUNING, changed, strict=True)}
            row.append(f"{np.mean(list(change.values())):+.4f}")
            of_parts = []
            for five, ten in ROTATIONS:
                on_ten, on_five = (np.mean([change[name] for name in names]) for names in (ten, five))
                of_parts.append(f"{on_ten:+.3f}/{on_five:+.3f}")
            row.append(", ".join(of_parts))
        rows.append(row)
    return table(["constant", "halved", "ten/five", "doubled", "ten/five"], rows)


def draw_parts(found: Cells, path: Path) -> None:
    """The mean NLL of every pool."""
    ways = [way for way in next(iter(found.values())) if set(way.split(" + ")) <= set(PARTS)]
    ways = sorted(ways, key=lambda way: -means(found, TUNING, way, "nll").mean())
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    values = [means(found, TUNING, way, "nll").mean() for way in ways]
    colors = ["tab:blue" if way == WHOLE else "0.4" for way in ways]
    axes.scatter(values, ways, color=colors)  # bars would have to begin at zero
    for value, way in zip(values, ways, strict=True):
        axes.annotate(f"{value:.3f}", (value, way), xytext=(7, -3), textcoords="offset points")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.set(xlabel="mean NLL on 15 tables, 100 rows (less is better)")
    axes.margins(x=0.12, y=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_caution(found: Cells, path: Path) -> None:
    """NLL on tables against sure answers on unseen classes, one line for each data set."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    ways = [f"say to the power of {power:g}" for power in POWERS]
    nll = [means(found, TUNING, way, "nll").mean() for way in ways]
    for name in UNSEEN:
        sure = [means(found, (name,), way, "sure")[0] for way in ways]
        axes.plot(nll, sure, marker="o", label=name)
        if name == "wine":
            for power, x, y in zip(POWERS, nll, sure, strict=True):
                axes.annotate(f"{power:g}", (x, y), xytext=(7, 3), textcoords="offset points", fontsize=8)
    axes.set(xlabel="mean NLL on 15 tables", ylabel="unseen class answered above .9", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Read the cells, write the document and draw its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", type=Path)
    parser.add_argument("--docs", type=Path, default=Path(__file__).parents[1] / "docs")
    given = parser.parse_args()
    found = read(given.cells)
    n_draws = {kind: len({draw for its, _, draw in found if its == kind}) for kind in ("table", "unseen")}
    text = TEXT.format(
        draws=n_draws["table"],
        unseen_draws=n_draws["unseen"],
        cells=given.cells.as_posix(),
        parts=parts(found),
        kinds=kinds(found),
        caution=caution(found),
        constants=constants(found),
        whole=number(means(found, TUNING, WHOLE, "nll").mean()),
    )
    (given.docs / "pool.md").write_text(text, encoding="utf-8")
    draw_parts(found, given.docs / "images" / "pool_parts.png")
    draw_caution(found, given.docs / "images" / "pool_caution.png")


if __name__ == "__main__":
    main()
