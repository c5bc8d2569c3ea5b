"""What the paper claims, and when our runs confirm it; :mod:`claim_tests` has the tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports import claim_tests as tests

CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable here"


@dataclass(frozen=True)
class Verdict:
    """``CONFIRMED``, ``NOT_CONFIRMED`` or ``NOT_TESTABLE``, and the numbers that say so."""

    status: str
    finding: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, where it makes it, when we call it confirmed, and what of ours shows it."""

    text: str
    source: str
    criterion: str
    shown_in: tuple[str, str]
    test: Callable[[tests.Measured], tuple[bool, str]]

    @property
    def study(self) -> str:
        """The study whose run decides it."""
        return self.shown_in[0]

    @property
    def exhibit(self) -> str:
        """The heading under which it is shown."""
        return self.shown_in[1]


def judge(claim: Claim, runs: Mapping[str, RunFolder]) -> Verdict:
    """Test a claim, if the run of the study that it needs is there and complete enough."""
    if claim.study not in runs:
        return Verdict(NOT_TESTABLE, f"`pnca reproduce {claim.study}` is not among these runs.")
    try:
        holds, finding = claim.test(tests.Measured(runs[claim.study]))
    except tests.UndecidedError as reason:
        return Verdict(NOT_TESTABLE, str(reason) or f"The run of {claim.study} lacks fits that this needs.")
    return Verdict(CONFIRMED if holds else NOT_CONFIRMED, finding)


_MNIST_TABLE = ("mnist", "Table 1: Accuracy on MNIST")
_MNIST_FIGURE = ("mnist", "Figure 2: MNIST")
_SIZES_FIGURE = ("mnist", "Figure 4: MNIST by number of training images")
_ABLATION = ("ablation", "PNCA with one thing changed at a time")
_COVID_TABLE = ("covid", "Table 1: Accuracy on COVID-19 X-rays")
_COVID_FIGURE = ("covid", "Figure 3: COVID-19 X-rays")
_WITHIN = "Each mean is within the sum of the two standard deviations of the paper's."
_BEYOND = "the 95 % interval of the mean difference over draws, of which there must be three, excludes zero"
_SMALLER = f"A smaller share above confidence .9 than each of the others: {_BEYOND}."

#: Every claim of the paper that an experiment could bear out, in the order of the document.
CLAIMS = (
    Claim(
        "Accuracy on MNIST test with 100 images: DNN .75, BNN .74, Ensemble .76, NCA .69, PNCA .67.",
        "Table 1",
        _WITHIN,
        _MNIST_TABLE,
        partial(tests.as_in_table_1, column="test"),
    ),
    Claim(
        "Accuracy on MNIST rotated by 60°: DNN .17, BNN .20, Ensemble .17, NCA .18, PNCA .18.",
        "Table 1",
        _WITHIN,
        _MNIST_TABLE,
        partial(tests.as_in_table_1, column="rotated"),
    ),
    Claim(
        "On rotated MNIST, PNCA is the most accurate where models are sure.",
        "Figure 2a",
        f"More accurate than each of the others at thresholds .5, .7 and .9: {_BEYOND}. A model that is "
        "never so sure is not compared.",
        _MNIST_FIGURE,
        tests.most_right_when_sure,
    ),
    Claim(
        "On rotated MNIST, PNCA has the fewest confident answers.",
        "Figure 2b",
        _SMALLER,
        _MNIST_FIGURE,
        partial(tests.fewest_sure, test_set="rotated"),
    ),
    Claim(
        "On notMNIST, PNCA has significantly fewer confident answers.",
        "Figure 2c",
        _SMALLER,
        _MNIST_FIGURE,
        partial(tests.fewest_sure, test_set="notmnist"),
    ),
    Claim(
        "The other models worsen as the training set shrinks: less accurate, more confident on OoD inputs.",
        "Figure 4",
        "From 400 to 100 images each of the others loses accuracy on rotated MNIST and gains "
        f"confident answers on notMNIST: {_BEYOND}.",
        _SIZES_FIGURE,
        tests.others_worsen,
    ),
    Claim(
        "PNCA is largely unaffected by the size of the training set.",
        "Figure 4",
        "Its share above .9 on notMNIST moves by less than .01 and its accuracy on rotated MNIST "
        "by less than .02.",
        _SIZES_FIGURE,
        tests.pnca_unaffected,
    ),
    Claim(
        "The uncertainty estimates of BNNs and deep ensembles degrade significantly when data are few.",
        "Abstract",
        f"NLL and ECE on MNIST test are worse at 100 images than at 400, for each: {_BEYOND}.",
        _MNIST_TABLE,
        tests.degrades,
    ),
    Claim(
        "PNCA quantifies uncertainty better without losing accuracy.",
        "Section 3",
        "The 95 % interval over draws, of which there must be three, of its accuracy on MNIST test minus "
        "that of the best other model is above -.02.",
        _MNIST_TABLE,
        tests.no_accuracy_lost,
    ),
    Claim(
        "With the median bandwidth, the parameter kernel sums to about one over the particles.",
        "Appendix A",
        "The mean sum is between .8 and 1.2.",
        ("mnist", "this number alone"),
        tests.kernel_sums_to_one,
    ),
    Claim(
        "Comparing inputs as distributions in the latent space is what lets a neighbour classifier "
        "quantify its uncertainty.",
        "Sections 1 and 2.2",
        "With the exact kernel between the same distributions, the share of notMNIST above .9 rises by at "
        "most .01: the upper end of the 95 % interval over draws, of which there must be three.",
        _ABLATION,
        tests.distributions_help,
    ),
    Claim(
        "Learning the distribution over parameters by functional gradient descent is worth it.",
        "Section 2.3",
        "With one of three kernels they are better than plain gradients in accuracy, NLL or "
        "confident answers on notMNIST, and with none worse, by intervals over draws that all hold together "
        "with 95 %.",
        _ABLATION,
        tests.functional_gradient_helps,
    ),
    Claim(
        "All models are about equally accurate (80 %) on COVID validation data.",
        "Section 1",
        "All between .76 and .84.",
        _COVID_TABLE,
        tests.all_near_80,
    ),
    Claim(
        "PNCA is the most accurate on COVID validation data (.82).",
        "Table 1",
        "The highest mean.",
        _COVID_TABLE,
        tests.pnca_most_accurate,
    ),
    Claim(
        "On Actualmed all models are inaccurate (.37 to .44), which shows a shift of the distribution.",
        "Table 1, Figure 3a",
        "All below .5.",
        _COVID_TABLE,
        tests.inaccurate_on_actualmed,
    ),
    Claim(
        "On Actualmed the BNN has somewhat fewer confident answers than the other models.",
        "Figure 3b",
        "Smaller mean shares above .9 than the others, on the images at hand.",
        _COVID_FIGURE,
        partial(tests.fewest_sure_covid, test_set="actualmed", models=tests.BNNS),
    ),
    Claim(
        "On X-rays of bones PNCA has significantly fewer confident answers than all other models.",
        "Figure 3c",
        "The smallest mean share above .9.",
        _COVID_FIGURE,
        partial(tests.fewest_sure_covid, test_set="bones", models=(tests.PNCA,)),
    ),
    Claim(
        "On three example X-rays all models are right on the first, BNN and PNCA are more cautious "
        "than the DNN on the second, and only PNCA on the third.",
        "Figure 1",
        "-",
        ("covid", "none"),
        tests.three_examples,
    ),
)
