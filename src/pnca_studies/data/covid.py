"""Chest X-rays with and without COVID-19, bone X-rays that are neither, and features of them all.

Two ways in: feature files prepared once (:func:`load_covid_features`), or the images themselves in
the folders their publishers hand out (:func:`read_covid_chestxray`, :func:`read_actualmed`,
:func:`read_mura`). The latter list image files with their labels and decode nothing.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.data._sources import Say, check_file, read_npz, say_on_stderr

Variant = Literal["plain", "equalised"]
Missing = Literal["error", "skip"]

COVID_CHESTXRAY_FOLDER = "covid-chestxray-dataset"
"""Name of the clone of the training images in a data folder."""
ACTUALMED_FOLDER = "Actualmed-COVID-chestxray-dataset"
"""Name of the clone of the test images in a data folder."""
MURA_FOLDER = "MURA-v1.1"
"""Name of the folder of bone X-rays in a data folder."""

_SNAPSHOT = "7c18e7df"
_SNAPSHOT_ROWS = 351
_SNAPSHOT_POSITIVE = 275
_ACTUALMED_POSITIVE = 58
_ACTUALMED_NEGATIVE = 127

_COVID_CHESTXRAY_ADVICE = (
    "Get it with  git clone https://github.com/ieee8023/covid-chestxray-dataset  and, inside it,  "
    f"git checkout {_SNAPSHOT}  (the snapshot of 2020-05-15); put it into your data folder as "
    f"{COVID_CHESTXRAY_FOLDER}/."
)
_ACTUALMED_ADVICE = (
    "Get it with  git clone https://github.com/agchung/Actualmed-COVID-chestxray-dataset  and put it "
    f"into your data folder as {ACTUALMED_FOLDER}/."
)
_MURA_ADVICE = (
    "MURA may not be passed on: ask for it, and accept its licence, at "
    "https://stanfordmlgroup.github.io/competitions/mura/ and put it into your data folder as "
    f"{MURA_FOLDER}/."
)

_FEATURE_FILES: dict[str, tuple[str, str]] = {  # variant: (file name, SHA-256 of the file)
    "plain": (
        "covid_features_resnet50.npz",
        "558a01a074e78d570ea64e8981d4cc27d9918bcdf1147564dde7a41f65ba2972",
    ),
    "equalised": (
        "covid_features_resnet50_eq256.npz",
        "323f1ed38010b774e79a37d872515bf3b8e95e775000aa05bb1014b02da913de",
    ),
}
_FEATURE_KEYS = (
    *("X_train", "y_train", "y_train_any_covid", "is_xray_train", "patient_train", "id_train"),
    *("X_test", "y_test", "patient_test", "X_test_inconclusive", "X_ood", "group_ood"),
)


# Compared by identity: equality of arrays is not one truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class CovidFeatures:
    """ResNet-50 features of the chest and bone X-rays, p = 2048.

    Attributes
    ----------
    features : ndarray of shape (n, p), float32
        Training images, from covid-chestxray-dataset.
    labels_paper : ndarray of shape (n,), int64
        1 where the finding is exactly ``COVID-19``: the paper's counts follow from this reading.
    labels_any_covid : ndarray of shape (n,), int64
        1 where the finding mentions COVID-19; ``COVID-19, ARDS`` counts here and not above.
    is_xray : ndarray of shape (n,), bool
        False for the CT slices among the training images.
    patients : ndarray of shape (n,), str
        Images of one patient share it; a fold that splits a patient leaks.
    ids : ndarray of shape (n,), str
        File names in covid-chestxray-dataset.
    test_features : ndarray of shape (n_test, p), float32
        Test images, from Actualmed.
    test_labels : ndarray of shape (n_test,), int64
        1 for COVID-19.
    test_patients : ndarray of shape (n_test,), str
        The patients of the test images.
    inconclusive_features : ndarray of shape (n_inconclusive, p), float32
        Actualmed images that were given no finding.
    ood_features : ndarray of shape (n_ood, p), float32
        Bone X-rays.
    ood_groups : ndarray of shape (n_ood,), str
        Where each bone X-ray comes from, such as ``MURA_XR_HAND``.
    """

    features: NDArray[np.float32]
    labels_paper: NDArray[np.int64]
    labels_any_covid: NDArray[np.int64]
    is_xray: NDArray[np.bool_]
    patients: NDArray[np.str_]
    ids: NDArray[np.str_]
    test_features: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    test_patients: NDArray[np.str_]
    inconclusive_features: NDArray[np.float32]
    ood_features: NDArray[np.float32]
    ood_groups: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, eq=False)
class CovidImages:
    """Image files of covid-chestxray-dataset with their labels, in the order of its table.

    Attributes
    ----------
    paths : tuple of n Path
        The image files. A file named by two rows appears twice, as in the paper's counts.
    labels_paper : ndarray of shape (n,), int64
        1 where the finding is exactly ``COVID-19``.
    labels_any_covid : ndarray of shape (n,), int64
        1 where the finding mentions COVID-19.
    is_xray : ndarray of shape (n,), bool
        False for CT slices.
    patients : ndarray of shape (n,), str
        Images of one patient share it.
    ids : ndarray of shape (n,), str
        The file names.
    """

    paths: tuple[Path, ...]
    labels_paper: NDArray[np.int64]
    labels_any_covid: NDArray[np.int64]
    is_xray: NDArray[np.bool_]
    patients: NDArray[np.str_]
    ids: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, eq=False)
class ActualmedImages:
    """Image files of the Actualmed data set, those with a finding apart from those without.

    Attributes
    ----------
    paths : tuple of n Path
        Images with a finding.
    labels : ndarray of shape (n,), int64
        1 for COVID-19, 0 for no finding.
    patients : ndarray of shape (n,), str
        The patients; some were negative on one day and positive on another.
    inconclusive_paths : tuple of k Path
        Images that were given no finding.
    inconclusive_patients : ndarray of shape (k,), str
        Their patients, some of whom have images above too.
    """

    paths: tuple[Path, ...]
    labels: NDArray[np.int64]
    patients: NDArray[np.str_]
    inconclusive_paths: tuple[Path, ...]
    inconclusive_patients: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, eq=False)
class MuraImages:
    """Image files of bone X-rays.

    Attributes
    ----------
    paths : tuple of n Path
        The image files, ordered by group and then by name.
    groups : ndarray of shape (n,), str
        The body part, such as ``XR_HAND``.
    patients : ndarray of shape (n,), str
        The name of the patient's folder.
    """

    paths: tuple[Path, ...]
    groups: NDArray[np.str_]
    patients: NDArray[np.str_]


def load_covid_features(data_dir: str | Path, variant: Variant = "plain") -> CovidFeatures:
    """Load the prepared features and verify the file.

    Known gaps, all from images that could not be had:

    - 347 of the paper's 351 training images: all 275 positive, 72 of 76 negative.
    - Actualmed: all 58 positive, but only 18 of 127 negative, those with small files, so not a random
      sample of them; and 10 of the inconclusive images.
    - Bone X-rays: 600 hands, 466 upper arms and 3 shoulders from MURA, and 597 shoulders with implants
      that are not from MURA.

    32 of the 58 positive Actualmed images exist only squashed to 256 x 256 pixels and
    histogram-equalised. On the plain features a model can tell positive from negative by that
    processing alone. The equalised features had every image treated so: use those to judge Actualmed.

    Parameters
    ----------
    data_dir : str or Path
        The folder that holds the files.
    variant : {"plain", "equalised"}, default="plain"
        ``covid_features_resnet50.npz``, or ``covid_features_resnet50_eq256.npz``, for which every image
        was squashed and equalised first.

    Returns
    -------
    CovidFeatures
        Features float32 of shape (n, 2048), widened from the stored float16.

    Raises
    ------
    InvalidInputError
        If there is no such variant.
    MissingDataError
        If the file is not there.
    CorruptDataError
        If the file is damaged or another version.

    Examples
    --------
    >>> load_covid_features("data", "equalised").features.shape  # doctest: +SKIP
    (347, 2048)
    """
    if variant not in _FEATURE_FILES:
        raise InvalidInputError(f"variant must be one of {sorted(_FEATURE_FILES)}, but it is {variant!r}.")
    name, sha256 = _FEATURE_FILES[variant]
    path = Path(data_dir) / name
    if not path.is_file():
        raise MissingDataError(
            f"{path} is not there. These features are not published: compute your own from the images, on "
            f"the command line with --backbone. Chest X-rays: {_COVID_CHESTXRAY_ADVICE} Actualmed: "
            f"{_ACTUALMED_ADVICE} {_MURA_ADVICE}"
        )
    check_file(path, digest=sha256)
    arrays = read_npz(path, _FEATURE_KEYS)
    return CovidFeatures(
        features=arrays["X_train"].astype(np.float32),
        labels_paper=arrays["y_train"].astype(np.int64),
        labels_any_covid=arrays["y_train_any_covid"].astype(np.int64),
        is_xray=arrays["is_xray_train"].astype(np.bool_),
        patients=arrays["patient_train"],
        ids=arrays["id_train"],
        test_features=arrays["X_test"].astype(np.float32),
        test_labels=arrays["y_test"].astype(np.int64),
        test_patients=arrays["patient_test"],
        inconclusive_features=arrays["X_test_inconclusive"].astype(np.float32),
        ood_features=arrays["X_ood"].astype(np.float32),
        ood_groups=arrays["group_ood"],
    )


def read_covid_chestxray(
    folder: str | Path,
    *,
    check_snapshot: bool = True,
    missing: Missing = "error",
    say: Say = say_on_stderr,
) -> CovidImages:
    """List the images of a clone of covid-chestxray-dataset, labelled as the paper's counts imply.

    The rows of ``metadata.csv`` with ``folder == "images"`` count. A row is positive if its finding is
    exactly ``COVID-19``; that gives the paper's 351 images and 275 positives at the snapshot of
    2020-05-15. The paper does not say so: the reading is inferred from the counts. It takes in 23 CT
    slices, counts 12 rows of ``COVID-19, ARDS`` as negative, and names 4 images twice.

    Parameters
    ----------
    folder : str or Path
        The clone, with ``metadata.csv`` and ``images/``.
    check_snapshot : bool, default=True
        Whether to refuse a table with other counts. Later versions have more images and word the
        findings differently.
    missing : {"error", "skip"}, default="error"
        What to do with rows whose image file is absent.
    say : callable, default prints to standard error
        ``say(line)`` is told what was skipped.

    Returns
    -------
    CovidImages
        Paths, labels and patients of n images.

    Raises
    ------
    MissingDataError
        If the clone or an image of it is not there.
    CorruptDataError
        If the table is damaged or of another snapshot.

    Examples
    --------
    >>> images = read_covid_chestxray("data/covid-chestxray-dataset")  # doctest: +SKIP
    >>> len(images.paths), images.labels_paper.sum()  # doctest: +SKIP
    (351, 275)
    """
    _check_missing(missing)
    columns = ("patientid", "finding", "modality", "folder", "filename")
    table = Path(folder) / "metadata.csv"
    rows = [row for row in _read_table(table, columns, _COVID_CHESTXRAY_ADVICE) if row["folder"] == "images"]
    n_positive = sum(row["finding"] == "COVID-19" for row in rows)
    if check_snapshot and (len(rows), n_positive) != (_SNAPSHOT_ROWS, _SNAPSHOT_POSITIVE):
        raise CorruptDataError(
            f"{table} lists {len(rows)} images, {n_positive} of them COVID-19; the paper's snapshot lists "
            f"{_SNAPSHOT_ROWS} and {_SNAPSHOT_POSITIVE}. Inside the clone run  git checkout {_SNAPSHOT}  "
            "or pass check_snapshot=False."
        )
    paths = _image_paths(table, [row["filename"] for row in rows])
    keep = _present(paths, missing, _COVID_CHESTXRAY_ADVICE, say)
    rows = [rows[i] for i in keep]
    return CovidImages(
        paths=tuple(paths[i] for i in keep),
        labels_paper=np.array([row["finding"] == "COVID-19" for row in rows], dtype=np.int64),
        labels_any_covid=np.array(["COVID-19" in row["finding"] for row in rows], dtype=np.int64),
        is_xray=np.array([row["modality"] == "X-ray" for row in rows], dtype=np.bool_),
        patients=_texts(row["patientid"] for row in rows),
        ids=_texts(row["filename"] for row in rows),
    )


def read_actualmed(
    folder: str | Path,
    *,
    check_snapshot: bool = True,
    missing: Missing = "error",
    say: Say = say_on_stderr,
) -> ActualmedImages:
    """List the images of a clone of the Actualmed data set.

    The finding in ``metadata.csv`` is ``COVID-19``, ``No finding``, or blank for an inconclusive image.

    Parameters
    ----------
    folder : str or Path
        The clone, with ``metadata.csv`` and ``images/``.
    check_snapshot : bool, default=True
        Whether to refuse a table without the 58 positive and 127 negative images of the paper.
    missing : {"error", "skip"}, default="error"
        What to do with rows whose image file is absent.
    say : callable, default prints to standard error
        ``say(line)`` is told what was skipped.

    Returns
    -------
    ActualmedImages
        Paths, labels and patients of the images with a finding; paths and patients of the others.

    Raises
    ------
    MissingDataError
        If the clone or an image of it is not there.
    CorruptDataError
        If the table is damaged, has other findings, or other counts.

    Examples
    --------
    >>> images = read_actualmed("data/Actualmed-COVID-chestxray-dataset")  # doctest: +SKIP
    >>> len(images.paths), images.labels.sum()  # doctest: +SKIP
    (185, 58)
    """
    _check_missing(missing)
    table = Path(folder) / "metadata.csv"
    rows = _read_table(table, ("patientid", "finding", "imagename"), _ACTUALMED_ADVICE)
    labels = [_actualmed_label(row["finding"], table) for row in rows]
    counts = (labels.count(1), labels.count(0))
    if check_snapshot and counts != (_ACTUALMED_POSITIVE, _ACTUALMED_NEGATIVE):
        raise CorruptDataError(
            f"{table} lists {counts[0]} positive and {counts[1]} negative images, expected "
            f"{_ACTUALMED_POSITIVE} and {_ACTUALMED_NEGATIVE}. Take an unchanged clone or pass "
            f"check_snapshot=False. {_ACTUALMED_ADVICE}"
        )
    paths = _image_paths(table, [row["imagename"] for row in rows])
    keep = _present(paths, missing, _ACTUALMED_ADVICE, say)
    labelled = [i for i in keep if labels[i] is not None]
    inconclusive = [i for i in keep if labels[i] is None]
    return ActualmedImages(
        paths=tuple(paths[i] for i in labelled),
        labels=np.array([labels[i] for i in labelled], dtype=np.int64),
        patients=_texts(rows[i]["patientid"] for i in labelled),
        inconclusive_paths=tuple(paths[i] for i in inconclusive),
        inconclusive_patients=_texts(rows[i]["patientid"] for i in inconclusive),
    )


def read_mura(
    folder: str | Path,
    *,
    groups: Sequence[str] = ("XR_HAND", "XR_SHOULDER", "XR_HUMERUS"),
    split: str = "valid",
) -> MuraImages:
    """List bone X-rays of MURA-v1.1, which each user has to ask for.

    The licence is personal and forbids passing the images on; see
    https://stanfordmlgroup.github.io/competitions/mura/.

    Parameters
    ----------
    folder : str or Path
        The unpacked ``MURA-v1.1``, with ``valid/XR_HAND/patient.../study.../image1.png`` and so on.
    groups : sequence of str, default=("XR_HAND", "XR_SHOULDER", "XR_HUMERUS")
        Body parts, in the order to list them.
    split : str, default="valid"
        ``"valid"`` or ``"train"``.

    Returns
    -------
    MuraImages
        Paths, body parts and patients of n images.

    Raises
    ------
    InvalidInputError
        If ``groups`` is a single string, or empty.
    MissingDataError
        If the folder, or a body part in it, is not there or empty.

    Examples
    --------
    >>> read_mura("data/MURA-v1.1", groups=["XR_HAND"]).groups[0]  # doctest: +SKIP
    np.str_('XR_HAND')
    """
    if isinstance(groups, str) or not groups:
        raise InvalidInputError(f"groups must be a list of body parts such as ['XR_HAND'], not {groups!r}.")
    paths: list[Path] = []
    labels: list[str] = []
    for group in groups:
        place = Path(folder) / split / group
        found = _mura_images(place)
        if not found:
            raise MissingDataError(f"{place} holds no images patient*/study*/*.png. {_MURA_ADVICE}")
        paths += found
        labels += [group] * len(found)
    return MuraImages(
        paths=tuple(paths),
        groups=_texts(labels),
        patients=_texts(path.parent.parent.name for path in paths),
    )


def _mura_images(place: Path) -> list[Path]:
    """Return the images of one body part; names with a leading dot are macOS's notes beside them."""
    return sorted(path for path in place.glob("patient*/study*/*.png") if not path.name.startswith("."))


def _check_missing(missing: str) -> None:
    if missing not in get_args(Missing):
        raise InvalidInputError(f"missing must be one of {list(get_args(Missing))}, but it is {missing!r}.")


def _actualmed_label(finding: str, table: Path) -> int | None:
    """Return 1, 0, or None for an image without a finding."""
    labels = {"COVID-19": 1, "No finding": 0, "": None, "Inconclusive": None}
    if finding not in labels:
        raise CorruptDataError(f"{table} has the finding {finding!r}; known are {sorted(labels)}.")
    return labels[finding]


def _read_table(path: Path, columns: Sequence[str], advice: str) -> list[dict[str, str]]:
    """Read these columns of a CSV file, without the blanks around their values."""
    if not path.is_file():
        raise MissingDataError(f"{path} is not there. {advice}")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if absent := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise CorruptDataError(
                    f"{path} lacks the columns {absent}; it may be another version. {advice}"
                )
            # A row cut short has None for its last columns.
            return [{name: (row[name] or "").strip() for name in columns} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CorruptDataError(f"{path} is not a readable CSV file: {error}") from error


def _image_paths(table: Path, names: Iterable[str]) -> list[Path]:
    """Return the place of each named image, beside the table in ``images/``."""
    folder = table.parent / "images"
    paths = []
    for name in names:
        # A name is only a name: it must not lead out of the folder.
        if name in ("", "..") or Path(name).name != name:
            raise CorruptDataError(f"{table} has {name!r} where the name of an image file is expected.")
        paths.append(folder / name)
    return paths


def _present(paths: Sequence[Path], missing: Missing, advice: str, say: Say) -> list[int]:
    """Return the positions of the files that exist; the absent ones are an error, or skipped aloud."""
    keep = [i for i, path in enumerate(paths) if path.is_file()]
    if len(keep) == len(paths):
        return keep
    absent = sorted({path.name for path in paths} - {paths[i].name for i in keep})
    names = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
    news = f"{len(absent)} image files are missing in {paths[0].parent}: {names}."
    if missing == "error":
        raise MissingDataError(f"{news} {advice} Pass missing='skip' to do without them.")
    say(f"Skipped {len(paths) - len(keep)} of {len(paths)} rows: {news}")
    return keep


def _texts(values: Iterable[str]) -> NDArray[np.str_]:
    """Return an array of str, also when there are none (numpy's default would then be float)."""
    return np.array(list(values), dtype=np.str_)
