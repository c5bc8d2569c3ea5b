"""Chest X-rays with and without COVID-19, bone X-rays, and features of them all.

:func:`load_covid_features` reads prepared features; :func:`read_covid_chestxray`, :func:`read_actualmed` and
:func:`read_mura` list the image files of the published folders with their labels, and decode nothing.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.arrays import Expected, read_npz
from pnca_studies.data._sources import Say, check_file, say_on_stderr

Variant = Literal["plain", "equalised"]
Missing = Literal["error", "skip"]

# Names of the published folders in a data folder: training images, test images, bones.
COVID_CHESTXRAY_FOLDER = "covid-chestxray-dataset"
ACTUALMED_FOLDER = "Actualmed-COVID-chestxray-dataset"
MURA_FOLDER = "MURA-v1.1"

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
_MAX_FEATURE_BYTES = 1 << 26  # ten times the largest array


# Compared by identity: equality of arrays is not one truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class CovidFeatures:
    """ResNet-50 features (n, 2048) of the chest and bone X-rays, with arrays (n,) about them."""

    features: NDArray[np.float32]  # training images, from covid-chestxray-dataset
    labels_paper: NDArray[np.int64]  # 1 where the finding is exactly COVID-19, as the paper's counts imply
    labels_any_covid: NDArray[np.int64]  # 1 where it mentions COVID-19, such as "COVID-19, ARDS"
    is_xray: NDArray[np.bool_]  # False for the CT slices among the training images
    patients: NDArray[np.str_]  # a fold that splits a patient leaks
    ids: NDArray[np.str_]  # file names in covid-chestxray-dataset
    test_features: NDArray[np.float32]  # test images, from Actualmed
    test_labels: NDArray[np.int64]  # 1 for COVID-19
    test_patients: NDArray[np.str_]
    inconclusive_features: NDArray[np.float32]  # Actualmed images without a finding
    ood_features: NDArray[np.float32]  # bone X-rays
    ood_groups: NDArray[np.str_]  # where each is from, such as MURA_XR_HAND


@dataclass(frozen=True, kw_only=True, eq=False)
class CovidImages:
    """Image files of covid-chestxray-dataset in the order of its table; labels as in CovidFeatures."""

    paths: tuple[Path, ...]  # a file named by two rows appears twice, as in the paper's counts
    labels_paper: NDArray[np.int64]
    labels_any_covid: NDArray[np.int64]
    is_xray: NDArray[np.bool_]
    patients: NDArray[np.str_]
    ids: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, eq=False)
class ActualmedImages:
    """Image files of the Actualmed data set, those with a finding apart from those without."""

    paths: tuple[Path, ...]
    labels: NDArray[np.int64]  # 1 for COVID-19, 0 for no finding
    patients: NDArray[np.str_]  # some were negative on one day and positive on another
    inconclusive_paths: tuple[Path, ...]
    inconclusive_patients: NDArray[np.str_]  # some have images with a finding too


@dataclass(frozen=True, kw_only=True, eq=False)
class MuraImages:
    """Image files of bone X-rays, ordered by body part and then by name."""

    paths: tuple[Path, ...]
    groups: NDArray[np.str_]  # body part, such as XR_HAND
    patients: NDArray[np.str_]


def load_covid_features(data_dir: str | Path, variant: Variant = "plain") -> CovidFeatures:
    """Load the prepared features and verify the file.

    Known gaps, all from images that were not available:

    - 347 of the paper's 351 training images: all 275 positive, 72 of 76 negative.
    - Actualmed: all 58 positive, but only 18 of 127 negative, those with small files, so not a random
      sample of them; and 10 of the inconclusive images.
    - Bone X-rays: 600 hands, 466 upper arms and 3 shoulders from MURA, and 597 shoulders with implants
      that are not from MURA.

    32 of the 58 positive Actualmed images exist only squashed to 256 x 256 pixels and histogram-equalised, so
    that plain features tell positive from negative by the processing alone. For the equalised features every
    image was processed so: use those to judge Actualmed.
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
    arrays = read_npz(path, dict.fromkeys(_FEATURE_KEYS, Expected(max_bytes=_MAX_FEATURE_BYTES)))
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
    exactly ``COVID-19``; at the snapshot of 2020-05-15 that gives the paper's 351 images and 275 positives,
    from which the rule is inferred. It includes 23 CT slices, counts 12 rows of ``COVID-19, ARDS`` as
    negative, and names 4 images twice. Tables with other counts are refused unless ``check_snapshot=False``.
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
    """List the images of a clone of the Actualmed data set, whose finding may be blank: inconclusive."""
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
    """List bone X-rays of MURA-v1.1, whose licence is personal: every user has to ask for the images."""
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
    """Return the images of one body part, without the files that macOS adds (a leading dot)."""
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
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptDataError(f"{path} is not a readable CSV file: {error}") from error


def _image_paths(table: Path, names: Iterable[str]) -> list[Path]:
    """Return the path of each named image, in ``images/`` beside the table."""
    folder = table.parent / "images"
    paths = []
    for name in names:
        # It must not lead out of the folder.
        if name in ("", "..") or Path(name).name != name:
            raise CorruptDataError(f"{table} has {name!r} where the name of an image file is expected.")
        paths.append(folder / name)
    return paths


def _present(paths: Sequence[Path], missing: Missing, advice: str, say: Say) -> list[int]:
    """Return the positions of the files that exist; missing ones are an error, or skipped and reported."""
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
