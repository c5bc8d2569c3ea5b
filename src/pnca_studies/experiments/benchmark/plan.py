"""Which cells a benchmark has, in the order in which they are computed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, GROUPS
from pnca_studies.experiments.benchmark.cells import Cell, check_names
from pnca_studies.experiments.benchmark.models import MODELS, OPTIONAL, PLANNED, PNCA, takes_part, why_not
from pnca_studies.experiments.choices import Question, load_questions

N_DRAWS = 5
#: Data sets on which PNCA's own settings are compared.
_OF_CHOICES = ("MNIST", "MNIST images", "COVID", "digits", "breast cancer", "wine", "iris")


def plan(
    n_draws: int = N_DRAWS,
    *,
    data_sets: Iterable[str] | None = None,
    sizes: Sequence[str] | None = None,
    models: Iterable[str] | None = None,
    first_draw: int = 0,
) -> list[Cell]:
    """List the cells of the benchmark: the first draw of everything, then the second, and so on.

    Data sets are named by themselves or by their group. Optional models are part of it only if they are
    named, or can run on this machine.
    """
    chosen = _data_sets(data_sets)
    runnable = [*PLANNED, *(name for name in OPTIONAL if not why_not(name))]
    names = runnable if models is None else list(models)
    check_names("models", names, MODELS)
    cells = [
        Cell(data=data, size=size, draw=draw, model=model)
        for draw in range(first_draw, first_draw + n_draws)
        for data in chosen
        for size in DATA_SETS[data].sizes
        if sizes is None or size in sizes or len(DATA_SETS[data].sizes) == 1
        for model in names
        if takes_part(model, DATA_SETS[data].kind)
    ]
    if not cells:
        raise InvalidInputError("Nothing to fit: these models or sizes are not part of these data sets.")
    return cells


def choices_plan(
    n_draws: int = N_DRAWS, *, data_sets: Iterable[str] | None = None, sizes: Sequence[str] | None = None
) -> list[Cell]:
    """List the cells that compare PNCA with itself (without experts), one setting changed at a time."""
    chosen = _data_sets(_OF_CHOICES if data_sets is None else data_sets)
    variants = _variants(load_questions())
    return [
        Cell(study="choices", data=data, size=size, draw=draw, model=name, changes=changes)
        for draw in range(n_draws)
        for data in chosen
        for size in DATA_SETS[data].sizes
        if sizes is None or size in sizes or len(DATA_SETS[data].sizes) == 1
        for name, (changes, of_images) in variants.items()
        if of_images is None or of_images == (DATA_SETS[data].kind == "images")
    ]


def _variants(questions: list[Question]) -> dict[str, tuple[Mapping[str, Any], bool | None]]:
    """Arguments of each variant, and whether it is asked of images, of everything else, or (None) of both."""
    found: dict[str, tuple[Mapping[str, Any], bool | None]] = {PNCA: ({"experts": []}, None)}
    for question in questions:
        for name, changes in question.variants.items():
            found[name] = ({"experts": [], **changes}, question.images)
    return found


def _data_sets(names: Iterable[str] | None) -> list[str]:
    """Names of data sets, from names of data sets and of groups."""
    if names is None:
        return list(DATA_SETS)
    wanted = list(names)
    check_names("data sets", wanted, [*GROUPS, *DATA_SETS])
    return [name for name, given in DATA_SETS.items() if name in wanted or given.group in wanted]
