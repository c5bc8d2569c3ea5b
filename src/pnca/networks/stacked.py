"""Any ``nn.Module`` as m particles at once, through ``torch.func``."""

import copy
import threading
from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from pnca.exceptions import InvalidInputError
from pnca.networks.mlp import unflatten
from pnca.networks.seeding import seeded


class StackedModule:
    """Run many parameter vectors of one module as one batched program.

    Only parameters that require a gradient belong to a particle. Frozen parameters and buffers (a pretrained
    backbone, say) are shared.

    Parameters
    ----------
    module : nn.Module or callable
        A callable is called once for each particle and returns a freshly initialised module. An instance is
        copied: frozen parameters are kept, trainable layers initialised again for each particle.
    sample : Tensor of shape (n, ...)
        A few inputs, of whose shape zeros are used to try the module.
    n_outputs : int, optional
        If given, a linear layer to this many outputs follows the module.
    seed : int
        Seed of random frozen parameters, such as a random projection.

    Examples
    --------
    >>> network = StackedModule(lambda: nn.Linear(5, 2), sample=torch.zeros(1, 5))
    >>> network(network.draw(3, torch.Generator().manual_seed(0)), torch.zeros(4, 5)).shape
    torch.Size([3, 4, 2])
    """

    # A user's forward may create float32 tensors of its own, so its precision is left alone.
    prediction_dtype = torch.float32
    # nn.Dropout takes no other.
    uses_global_generator = True
    takes_rows = False

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        *,
        sample: Tensor,
        n_outputs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.module = module
        self.n_outputs = n_outputs
        self.sample = torch.zeros_like(sample)  # its shape is what counts; nobody's data are kept
        with seeded(seed):
            template, self.n_features = _build(module, self.sample)
            _n_features(template, self.sample[:1])  # two rows may pass for two channels
            if n_outputs is not None:
                template = nn.Sequential(template, nn.Linear(self.n_features, n_outputs))
        _refuse_fresh_batch_norm(template)
        self.template = template
        trainable = {name: p for name, p in template.named_parameters() if p.requires_grad}
        if not trainable:
            raise InvalidInputError("module has no trainable parameter, so there is nothing to fit.")
        self._in_use = threading.Lock()  # while it runs, the template holds the particles
        self.names = list(trainable)
        self.shapes = [p.shape for p in trainable.values()]

    def draw(self, n_particles: int, generator: torch.Generator) -> Tensor:
        """Draw initial parameters: (m, p)."""
        seed = int(torch.randint(2**62, (), generator=generator))
        with seeded(seed):
            particles = torch.stack([self._draw_one() for _ in range(n_particles)])
        if n_particles > 1 and (particles == particles[0]).all():
            raise InvalidInputError(
                "module() returned the same weights for every particle; let it build a new, randomly "
                "initialised module at each call."
            )
        return particles

    def __call__(
        self,
        particles: Tensor,
        inputs: Tensor,
        *,
        training: bool = False,
        mixing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Run every particle on every input: (m, p), (n, ...) -> (m, n, d)."""
        if not len(inputs):  # a rank's shard may be empty, which many modules cannot take
            return self(particles, self.sample[:1].to(inputs), training=training, mixing=mixing)[:, :0]

        def run(parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
            output: Tensor = functional_call(self.template, parameters, (inputs,))
            return output

        particles = mix_gradients(particles, mixing)
        parameters = dict(zip(self.names, unflatten(particles, self.shapes), strict=True))
        randomness = "different" if training else "error"
        outputs: Tensor
        with self._in_use:
            _set_mode(self.template.to(particles.device), training)
            try:  # on a copy: a module may write into its input
                outputs = vmap(run, in_dims=(0, None), randomness=randomness)(parameters, inputs.clone())
            except Exception as error:
                raise InvalidInputError(
                    f"module cannot be run for all particles at once, {_told(error)}; it must be a function "
                    "of its input that torch.vmap can run."
                ) from error
        shape = (len(particles), len(inputs), self.n_outputs or self.n_features)
        if not isinstance(outputs, Tensor) or outputs.shape != shape or not outputs.is_floating_point():
            got = (
                f"{tuple(outputs.shape)} {outputs.dtype}"
                if isinstance(outputs, Tensor)
                else type(outputs).__name__
            )
            raise InvalidInputError(
                f"module must give floats of shape {shape} for all particles; it gave {got}."
            )
        if training and particles.requires_grad and not outputs.requires_grad:
            raise InvalidInputError(
                "module's outputs do not depend on its parameters, or are detached from them."
            )
        return outputs.to(particles.dtype)

    def __getstate__(self) -> dict[str, object]:
        # The template follows the last device it ran on; a saved model must load without it.
        with self._in_use:
            state = {**self.__dict__, "template": copy.deepcopy(self.template).cpu()}
        return {name: value for name, value in state.items() if name != "_in_use"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _in_use=threading.Lock())

    def _draw_one(self) -> Tensor:
        module, _ = _build(self.module, self.sample)
        parts = [p.detach().flatten() for p in module.parameters() if p.requires_grad]
        if self.n_outputs is not None:
            parts += [p.detach().flatten() for p in nn.Linear(self.n_features, self.n_outputs).parameters()]
        return torch.cat(parts).float().cpu()


def _build(module: nn.Module | Callable[[], nn.Module], sample: Tensor) -> tuple[nn.Module, int]:
    """Make a module that shares nothing with the user's, in float32 on the CPU; return its width too."""
    is_architecture = isinstance(module, nn.Module)
    try:
        built = copy.deepcopy(module if is_architecture else module())
    except Exception as error:
        raise InvalidInputError(
            f"module() failed, {_told(error)}; pass a callable without arguments that builds a module."
        ) from error
    if not isinstance(built, nn.Module):
        found = type(built).__name__
        raise InvalidInputError(f"module() must return a torch.nn.Module; it returned {found}.")
    built = built.cpu().float()
    n_features = _n_features(built, sample)  # before the redraw: it gives lazy layers their size
    if is_architecture:
        _redraw(built)
    return built, n_features


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _redraw(module: nn.Module) -> None:
    """Initialise every trainable layer again."""
    redrawn: set[int] = set()
    for layer in module.modules():
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        if _is_batch_norm(layer):  # its reset would also throw the stored statistics away
            redrawn.update(map(id, own))
        elif callable(reset := getattr(layer, "reset_parameters", None)):
            reset()
            redrawn.update(map(id, layer.parameters()))
    kept = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in redrawn]
    if kept:
        raise InvalidInputError(
            f"The module's parameters {kept} have no reset_parameters() to draw them anew for each "
            "particle; pass a callable that builds the module instead of an instance."
        )


def _n_features(module: nn.Module, sample: Tensor) -> int:
    """Width of the module's output, found by running it."""
    _set_mode(module, training=False)
    try:
        with torch.no_grad():
            output = module(sample)
    except Exception as error:
        shape = tuple(sample.shape[1:])
        raise InvalidInputError(f"module cannot take inputs of shape {shape}: {_told(error)}") from error
    n, is_tensor = len(sample), isinstance(output, Tensor)
    if not is_tensor or output.ndim != 2 or output.shape[0] != n or output.shape[1] == 0:
        got = tuple(output.shape) if is_tensor else type(output).__name__
        raise InvalidInputError(
            f"module must turn {n} inputs into a tensor of shape ({n}, d); it returned {got}."
        )
    return int(output.shape[1])


def _is_batch_norm(layer: nn.Module) -> TypeGuard[nn.modules.batchnorm._BatchNorm]:
    return isinstance(layer, nn.modules.batchnorm._BatchNorm)


def _refuse_fresh_batch_norm(module: nn.Module) -> None:
    """Batch normalisation would make predictions depend on the batch; only stored statistics are used."""
    for name, layer in module.named_modules():
        if _is_batch_norm(layer) and not _has_statistics(layer):
            raise InvalidInputError(
                f"Layer {name!r} is a batch normalisation whose statistics were never trained: it would tie "
                "predictions to the batch, which particles share. Use nn.GroupNorm or nn.LayerNorm instead."
            )


def _has_statistics(layer: nn.modules.batchnorm._BatchNorm) -> bool:
    # Not by num_batches_tracked: older checkpoints have statistics but not the counter.
    if layer.running_mean is None or layer.running_var is None:
        return False
    return bool((layer.running_mean != 0).any() or (layer.running_var != 1).any())


def _set_mode(module: nn.Module, training: bool) -> None:
    """Switch dropout on or off; batch normalisation always uses its stored statistics."""
    module.train(training)
    for layer in module.modules():
        if _is_batch_norm(layer):
            layer.eval()


def mix_gradients(particles: Tensor, mixing: Tensor | None) -> Tensor:
    """The particles (m, p) themselves, with gradients multiplied by ``mixing`` (m, m); None is the identity.

    >>> particles = torch.zeros(2, 1, requires_grad=True)
    >>> mix_gradients(particles, torch.tensor([[1.0, 0.5], [0.5, 1.0]]))[0].backward()
    >>> particles.grad.flatten()
    tensor([1.0000, 0.5000])
    """
    if mixing is None:
        return particles
    mixed: Tensor = _MixGradients.apply(particles, mixing)  # type: ignore[no-untyped-call]
    return mixed


class _MixGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, particles: Tensor, mixing: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(mixing)
        return particles.view_as(particles)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        return ctx.saved_tensors[0] @ grad, None
