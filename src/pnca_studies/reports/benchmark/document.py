"""The document: a first screen, a page for each question, and an appendix."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pnca.exceptions import InvalidInputError
from pnca.files import make_folder, write_text
from pnca_studies.experiments.benchmark import N_DRAWS, plan
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, GROUPS
from pnca_studies.experiments.benchmark.cells import Cell, Line, read_lines
from pnca_studies.experiments.benchmark.measures import LEAST
from pnca_studies.experiments.benchmark.models import CLASSIFIERS, MODELS, OPTIONAL, PAPER, PLANNED, PNCA
from pnca_studies.reports.benchmark.first_screen import first_screen
from pnca_studies.reports.benchmark.pages import (
    Body,
    features_page,
    foreign_page,
    images_page,
    per_size_tables,
    tables_page,
    time_page,
    unseen_page,
)
from pnca_studies.reports.benchmark.results import Results
from pnca_studies.reports.benchmark.targets import targets_page
from pnca_studies.reports.benchmark.writing import counted, listed, missing_line
from pnca_studies.reports.tables import Table, check_document
from pnca_studies.rivals import SCORES

#: Pages by the name of the file: title, and what makes the page from results, folder and link of figures.
_PAGES: dict[str, tuple[str, Callable[[Results, Path, str], Body]]] = {
    "tables": ("Tables", tables_page),
    "images": ("Images", images_page),
    "features": ("Features of a frozen network", features_page),
    "foreign": ("Foreign inputs", foreign_page),
    "unseen": ("Unseen classes", unseen_page),
    "time": ("Time", time_page),
}
_APPENDIX = "appendix"
_PROTOCOL = """\
## What is compared

{data}

`PNCA` is `PNCAClassifier()` with its default settings, on the raw table. It is compared with {n} other
classifiers: {others}. And with scores that tell foreign inputs without a classifier: {scores}. Each has the
settings recommended for it; what is left to choose is chosen on the training examples alone, in folds that
split no patient. Boosted trees get the raw table, all others one-hot categories, medians for holes, and
standardised numbers. {paper} are as in the paper, but for the precision of the BNN's prior, which does not
grow with the examples. {optional}

- **Draws**: {draws}, the same for every model. Draw s is `numpy.random.RandomState(s)` and `random_state=s`;
  of the X-rays it is fold s modulo 5 of partition s // 5 by patient. At most 1,000 other rows of a table are
  tested.
- **Temperature scaling**: one number for each fit, by `pnca.calibration.fit_temperature` on predictions out
  of fold, for every model alike. *As is* means without. Probabilities are at least {least:g} before it.
- **Ranks** are of means over draws, among the classifiers that have every cell; **tests** are Wilcoxon's
  over data sets, corrected by Holm. Bars of a diagram of critical differences join models that these tests
  do not tell apart.
- **Intervals** are Student's over draws, and there is none of fewer than five.
- **Measures**: *NLL*, mean negative log-likelihood; *AUROC*, of each class against the rest; *ECE*,
  expected calibration error in 15 bins; *AUGRC*, the share of answers that are given and wrong, averaged
  over how many are given.
"""
_MADE = """\
## How these numbers were made

```sh
pnca benchmark --data-dir DATA --trials {draws} --out CELLS
pnca report CELLS --out {document}
```

{cells} on {machines}. Code of the method: {codes}.
"""


def write_benchmark(paths: Sequence[Path], path: Path, *, n_draws: int = N_DRAWS) -> Path:
    """Write the document from files or folders of cells, with its pages and figures in a folder beside it."""
    check_document(path)
    there = {line["model"] for line in read_lines(paths)}
    models = [*PLANNED, *(model for model in OPTIONAL if model in there)]
    results = read_results(paths, plan(n_draws, models=models))
    folder = make_folder(path.parent / path.stem)
    missing = missing_line(results)
    for name, (title, make) in _PAGES.items():
        body = make(results, folder, ".") or ["No cell of it is there."]
        write_text(folder / f"{name}.md", "\n".join([f"# {title}", "", *_front(missing), *body]))
    appendix = [
        "# Appendix",
        "",
        *_front(missing),
        _MADE.format(
            draws=n_draws,
            document=path.as_posix(),
            cells=counted(len(results.kept), "cell"),
            machines=listed(list(dict.fromkeys(line["machine"] for line in results.kept))),
            codes=_codes(results.kept),
        ),
        targets_page(results),
        *per_size_tables(results),
    ]
    write_text(folder / f"{_APPENDIX}.md", "\n".join(appendix))
    screen = ["# Benchmark", "", *_front(missing), first_screen(results, folder, path.stem)]
    return write_text(path, "\n".join([*screen, _links(path.stem), _protocol(results, n_draws)]))


def _front(missing: str) -> Body:
    return [missing] if missing else []


def read_results(paths: Sequence[Path], cells: Sequence[Cell], models: Sequence[str] = MODELS) -> Results:
    """Read the cells; without one of PNCA there is nothing to write about."""
    results = Results(read_lines(paths), cells, models)
    if not any(PNCA in results.models(place) for place in results.places):
        raise InvalidInputError(
            f"No cell of {PNCA} is in {listed([str(path) for path in paths])}, and the document compares "
            f"it with "
            "the others."
        )
    return results


def _links(stem: str) -> str:
    pages = [f"[{title}]({stem}/{name}.md)" for name, (title, _) in _PAGES.items()]
    toctree = "\n".join(
        ["```{toctree}", ":hidden:", "", *(f"{stem}/{name}" for name in (*_PAGES, _APPENDIX)), "```"]
    )
    return f"More: {listed([*pages, f'[appendix]({stem}/{_APPENDIX}.md)'])}.\n\n{toctree}\n"


def _protocol(results: Results, n_draws: int) -> str:
    rows = []
    for group, about in GROUPS.items():
        of_group = [data_set for data_set in DATA_SETS.values() if data_set.group == group]
        sizes = dict.fromkeys(size for data_set in of_group for size in data_set.sizes)
        rows.append([group, str(len(of_group)), ", ".join(sizes), about])
    data = Table(headings=["group", "data sets", "training examples", "what they are"], rows=rows).markdown()
    there = {line["model"] for line in results.lines}
    absent = [model for model in OPTIONAL if model not in there]
    why = "were not runnable offline, for want of packages or weights"
    optional = f"These {why}: {listed(absent)}." if absent else ""
    others = [model for model in (*CLASSIFIERS, *OPTIONAL) if model != PNCA and model not in absent]
    return _PROTOCOL.format(
        data=data,
        n=len(others),
        others=listed(others),
        scores=listed(list(SCORES)),
        paper=listed(list(PAPER)),
        optional=optional,
        draws=n_draws,
        least=LEAST,
    )


def _codes(lines: Sequence[Line]) -> str:
    """Say with which code the default was measured, and whether that was the same everywhere."""
    codes = list(dict.fromkeys(line["code"] for line in lines if line["model"] == PNCA))
    if len(codes) == 1:
        return f"`{codes[0]}`"
    named = listed([f"`{code}`" for code in codes])
    return f"**{PNCA} was measured with {len(codes)} versions of it** ({named})"
