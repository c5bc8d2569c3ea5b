"""What the document about performance is made of: its sections, their files and their words."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the document that is made from result files of one name.

    Attributes
    ----------
    name : str
        Files ``name.json`` and ``name_*.json``.
    title : str
        Heading.
    words : str
        What is measured, and how to read it.
    asked : str
        What the figures should reach, in words; the bounds themselves are in the records.
    options : str
        Of the script, as the document gives its command.
    """

    name: str
    title: str
    words: str
    asked: str
    options: str = ""


SECTIONS = (
    Section(
        name="small_fits",
        title="Small fits",
        words="""\
The paper's networks (784-200-200-10, 100 epochs; ten particles, where a model has particles) on 100 to 1,000
rows of 784 numbers. The floor is the matrix products of the same steps and nothing else, each one `torch.bmm`
into memory that is there already: for every layer the forward product and the gradient of the weights, and
for every layer but the first the gradient of its input. PNCA and the BNN also need the products of the kernel
between particles, kappa: the Gram matrix of the particles, and one mixing of the gradients (PNCA) or two
(BNN). The floor is given with them, which is the one the target is about, and without. Not counted: biases,
activations, the loss, the latent kernel and the optimiser. The authors' times are of their TensorFlow 2.21
code on another machine with two cores, so that ratio is between machines too.""",
        asked="PNCA, ensemble and BNN within 1.5 times their products and 35 times faster than the authors'",
    ),
    Section(
        name="importing",
        title="Importing",
        words="""\
Every line is the difference between fresh processes started in turn, but for `pnca --help`, which is the
whole process.""",
        asked="`import pnca` under .3 s beyond torch, `pnca --help` under .5 s",
    ),
    Section(
        name="gpu_small",
        title="Small fits on a GPU",
        words="""\
The paper's PNCA on 100 rows, from arrays on the host to a fitted model. The step is recorded as a CUDA graph
in every fit and played from then on; the alternative starts every operation of every step from Python.""",
        asked="100 epochs of the paper's PNCA in at most 25 ms on an H200",
    ),
    Section(
        name="gpu_masses",
        title="The exact kernel at large n on a GPU",
        words="""\
Class masses from given embeddings and the gradient of a loss that is linear in them, by the fused kernels:
times are of forward and backward together. "Cross" sums the kernel over all pairs of particles, "shared" over
each particle with itself; "inputs" are columns whose distance shrinks the kernel. Memory is what the call
needs beyond the embeddings. The error is that of 64 rows of the gradient against float64, relative to their
norm. The floor is the time of the exponentials that are needed, at the rate of the chip, and of nothing
else.""",
        asked="n = 60,000, m = d = 10 forward and backward in at most .5 s and 1 GiB, gradients within 1e-3",
    ),
    Section(
        name="cpu_masses",
        title="The exact kernel on a CPU",
        words="""\
Loss and gradient with the exact kernel in given embeddings, in tiles. scikit-learn's NCA is its objective
with the identity as the linear map; of its two precisions, and of two ways to write the objective in KeOps,
the faster is the one the target is about.""",
        asked="n = 10,000, m = 10 in 4 GiB; as fast as KeOps, and as scikit-learn's NCA with m = 1",
    ),
    Section(
        name="positive_kernel",
        title="Linear in n: positive random features",
        words="""\
The kernel by orthogonal random features, against the exact one. First the error of the class shares: half the
sum of absolute differences, its mean over queries and three draws of features. Plain positive features are
those of Choromanski et al., those of the best variance of Likhosherstov et al., the trigonometric ones of the
paper, all with as many numbers a point. Then models of MNIST: the time is that of the fit.""",
        asked="all 60,000 images of MNIST in minutes on a CPU and in seconds on an H200",
    ),
    Section(
        name="mnist_scale",
        title="All of MNIST with the exact kernel",
        words="The learning curve up to 60,000 images; the time is that of the fit.",
        asked="time, accuracy, likelihood and caution at n = 60,000 beside n = 100 to 10,000",
        options="--device cuda ",
    ),
    Section(
        name="scaling",
        title="More than one process",
        words="""\
A training step on all rows at once, divided between processes of one machine with a thread each. Efficiency
is the time of one process over that of several times their number.""",
        asked="the same result as one process; efficiency reported",
    ),
    Section(
        name="scoring",
        title="Scoring",
        words="""\
Class probabilities for rows of 784 numbers in a file, by a model with 1,000 training examples and ten
particles. Workers of Dask read their own parts of the file.""",
        asked="throughput against one process",
    ),
    Section(
        name="growth",
        title="Growth",
        words="""\
Time of one epoch with all rows at once, time of 1,000 predictions, and the peak memory of both beyond what
the process held before, each point in a process of its own. One letter varies; the others stay at n = 1,000
points, m = 5 particles, d = 10 latent dimensions and c = 10 classes, with the paper's hidden layers. An
exponent is the slope of a line through the logarithms; it lies between those of the parts that a cost is made
of, so the slope between the last two points stands beside it.""",
        asked="plots of time and memory with fitted exponents",
    ),
)
