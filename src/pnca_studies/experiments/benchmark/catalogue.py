"""Which data sets the benchmark has. None is loaded: what is planned does not depend on what is there."""

from dataclasses import dataclass

from pnca_studies.data.tables import TABLES

#: Test sets. The first is in distribution; what the others are.
TEST = "test"
FOREIGN = {
    "unseen class": "inputs of a class that was left out of the training examples",
    "unit error": "the test rows with one column times ten",
    "other site": "rows of another source with the same columns",
    "rotated": "the test digits turned by 60°",
    "letters": "letters of notMNIST",
    "bones": "X-rays of bones",
}
#: Pairs of tables with the same columns, measured elsewhere: metrics of the code of NASA's software.
SITES = {"kc2": "pc1", "pc1": "kc2", "pc3": "pc4", "pc4": "pc3"}
UNSEEN = ", a class unseen"
_SAMPLES = ("100", "half")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set; every size of it is drawn as often as any other."""

    name: str
    group: str  # one of GROUPS
    kind: str  # what an input is: "table", "pixels", "images" or "features"
    sizes: tuple[str, ...]  # numbers of training examples, "half" of all, or "folds"
    about: str = ""


#: Groups of data sets, and what they are.
GROUPS = {
    "tuning tables": "the 15 tables of OpenML's CC-18 on which the constants of the default were set",
    "final tables": "the 15 others, on which nothing was set",
    "small data sets": "data sets of scikit-learn; of three classes or more, one is left out of each draw",
    "images": "digits of MNIST, as rows of pixels and as images",
    "features": "features of chest X-rays by a frozen network (COVID-19), patients kept together",
    "unseen classes": "the tables with three classes or more, without one of them in turn",
}


def _tables() -> list[DataSet]:
    found = []
    for name, table in TABLES.items():
        group = "tuning tables" if table.is_tuning else "final tables"
        about = f"{table.n_rows:,} rows, {table.n_columns} columns, {table.n_classes} classes"
        found.append(DataSet(name=name, group=group, kind="table", sizes=_SAMPLES, about=about))
        if table.n_classes > 2:
            found.append(
                DataSet(
                    name=name + UNSEEN, group="unseen classes", kind="table", sizes=_SAMPLES[:1], about=about
                )
            )
    return sorted(found, key=lambda data_set: list(GROUPS).index(data_set.group))


_SMALL = {
    "digits": (("100", "400"), "digits of 8 by 8 pixels"),
    "breast cancer": (("100", "400"), "30 measurements of cells, 2 classes"),
    "wine": (("50",), "13 chemical measurements"),
    "iris": (("50",), "4 measurements of flowers"),
}
DATA_SETS: dict[str, DataSet] = {
    data_set.name: data_set
    for data_set in (
        *_tables(),
        *(
            DataSet(
                name=name,
                group="small data sets",
                kind="pixels" if name == "digits" else "table",
                sizes=sizes,
                about=about,
            )
            for name, (sizes, about) in _SMALL.items()
        ),
        DataSet(
            name="MNIST",
            group="images",
            kind="pixels",
            sizes=("100", "400"),
            about="digits as rows of 784 pixels",
        ),
        DataSet(
            name="MNIST images",
            group="images",
            kind="images",
            sizes=("100", "400"),
            about="digits as images; networks see them shifted, turned and resized at random",
        ),
        DataSet(
            name="COVID",
            group="features",
            kind="features",
            sizes=("folds",),
            about="2,048 features of 347 X-rays, in five folds by patient",
        ),
        DataSet(
            name="COVID, equalised",
            group="features",
            kind="features",
            sizes=("folds",),
            about="the same of X-rays that were made alike in size and histogram, as the other site's are",
        ),
    )
}
