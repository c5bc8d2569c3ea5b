"""Arrays in, numbers out: metrics that know no estimator."""

from pnca.evaluation.classification import (
    ConfidenceBins,
    accuracy,
    auroc,
    auroc_contributions,
    balanced_accuracy,
    brier_score,
    confidence_bins,
    expected_calibration_error,
    negative_log_likelihood,
)
from pnca.evaluation.confidence import (
    ConfidenceCurve,
    accuracy_vs_confidence,
    count_vs_confidence,
    share_above,
)
from pnca.evaluation.intervals import mean_interval, share_interval
from pnca.evaluation.ood import ood_aupr, ood_auroc, ood_fpr95
from pnca.evaluation.paired import bootstrap_interval, paired_interval
from pnca.evaluation.selective import augrc, aurc, coverage_at_risk, risk_at_coverage, risk_coverage
from pnca.evaluation.summary import summarise

__all__ = [
    "ConfidenceBins",
    "ConfidenceCurve",
    "accuracy",
    "accuracy_vs_confidence",
    "augrc",
    "aurc",
    "auroc",
    "auroc_contributions",
    "balanced_accuracy",
    "bootstrap_interval",
    "brier_score",
    "confidence_bins",
    "count_vs_confidence",
    "coverage_at_risk",
    "expected_calibration_error",
    "mean_interval",
    "negative_log_likelihood",
    "ood_aupr",
    "ood_auroc",
    "ood_fpr95",
    "paired_interval",
    "risk_at_coverage",
    "risk_coverage",
    "share_above",
    "share_interval",
    "summarise",
]
