"""Actualmed as it is here lacks negative images: what that does to the numbers."""

from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.frame import by_repetition, pd, unique, where
from pnca_studies.reports.tables import number

#: Negative images of Actualmed in the paper.
PAPER_NEGATIVES = 127


def covid_counts(folder: RunFolder) -> dict[str, int]:
    """Counts of the images of a COVID run; both kinds of features have the same."""
    data: dict[str, dict[str, int]] = folder.read_run()["protocol"]["data"]
    return next(iter(data.values()))


def actualmed_notes(folder: RunFolder, shown: pd.DataFrame) -> list[str]:
    """Say what the missing negatives do to the numbers on Actualmed; nothing if none is missing."""
    counts = covid_counts(folder)
    positive, negative = counts["actualmed_positive"], counts["actualmed_negative"]
    if (missing := PAPER_NEGATIVES - negative) <= 0:
        return []
    n, n_paper = positive + negative, positive + PAPER_NEGATIVES
    given = where(shown, test_set="actualmed")
    mixed = [
        f"{model} {number(at_the_papers_mix(where(given, model=model), positive, negative), 2)}"
        for model in unique(shown, "model")
    ]
    return [
        f"**Actualmed is incomplete here.** {missing} of its {PAPER_NEGATIVES} negative images could not "
        f"be obtained, and the {negative} that could are not a random sample. Always answering COVID "
        f"scores {number(positive / n, 2)} on these {n} images and {number(positive / n_paper, 2)} on the "
        f"paper's {n_paper}, so the accuracies cannot be compared with the paper's, and the curves over "
        "confidence are those of mostly positive images. With each class's own accuracy at the paper's mix "
        f"of {positive} and {PAPER_NEGATIVES}: {', '.join(mixed)}; this assumes that the missing negatives "
        "are like the few at hand."
    ]


def at_the_papers_mix(given: pd.DataFrame, positive: int, negative: int) -> float:
    """Accuracy on Actualmed if its classes were mixed as in the paper's copy."""
    if positive == negative:
        return float("nan")
    # Accuracy and balanced accuracy are two weighted means of the two recalls, so they give both.
    accuracy, balanced = (by_repetition(given, name).mean() for name in ("accuracy", "balanced_accuracy"))
    n = positive + negative
    recall = (n * accuracy - 2 * negative * balanced) / (positive - negative)
    specificity = 2 * balanced - recall
    return float((positive * recall + PAPER_NEGATIVES * specificity) / (positive + PAPER_NEGATIVES))
