"""Load frozen networks: timm models and ONNX files, without pickles and without unrequested downloads."""

from pathlib import Path

from pnca.exceptions import InvalidInputError
from pnca.vision.base import Backbone
from pnca.vision.onnx_models import Scale, load_onnx
from pnca.vision.timm_models import load_timm


def load_backbone(
    spec: str | Path,
    *,
    weights: str | Path | None = None,
    download: bool = False,
    scale: Scale | None = None,
) -> Backbone:
    """Load a frozen network that turns images into features.

    ``"timm:NAME"`` is a timm model without its classification head, with timm's evaluation preprocessing
    (a crop may lie one pixel aside, as timm rounds differently). Its weights are read from the file
    ``weights`` if given, otherwise from the local cache of the Hugging Face hub.

    ``"PATH.onnx"`` is a file with one input, images of shape (batch, 3, h, h) or (batch, 1, h, h), and one
    output, features of shape (batch, n_features); an output of shape (batch, n_features, rows, columns) is
    averaged over rows and columns. It runs on the CPU with ``torch.get_num_threads()`` threads.

    Parameters
    ----------
    spec : str or Path
        ``"timm:NAME"`` or the path of an ``.onnx`` file.
    weights : str, Path or None, default=None
        For a timm model: a checkpoint of that model, a ``.safetensors`` file. Pickles are not read.
    download : bool, default=False
        For a timm model: whether weights that are not on this machine may be fetched.
    scale : {"0-255", "0-1", "imagenet"} or None, default=None
        For an ONNX file: the range of the pixels it takes, which the file does not tell. None is
        ``"0-255"``, for a network that normalises by itself; ``"imagenet"`` is 0 to 1, standardised with
        ImageNet's mean and standard deviation per channel.

    Raises
    ------
    MissingDataError
        If the file is not there, or the weights are not on this machine and may not be downloaded.
    CorruptDataError
        If a file is damaged, or not what its name says.
    InvalidInputError
        If timm has no such model, or the file is of another model or has other inputs and outputs.
    MissingExtraError
        If timm or onnxruntime is not installed.

    Examples
    --------
    >>> load_backbone("timm:resnet50", weights="resnet50.safetensors").n_features  # doctest: +SKIP
    2048
    >>> load_backbone("resnet50.onnx", scale="imagenet").n_features  # doctest: +SKIP
    2048
    """
    kind, _, name = str(spec).partition(":")
    if kind == "timm":
        if scale is not None:
            raise InvalidInputError("scale is for ONNX files; a timm model brings its own normalisation.")
        return load_timm(name, None if weights is None else Path(weights), download=download)
    if Path(spec).suffix.lower() == ".onnx":
        if weights is not None or download:
            raise InvalidInputError("weights and download are for timm models; an ONNX file has its weights.")
        return load_onnx(Path(spec), "0-255" if scale is None else scale)
    raise InvalidInputError(f"A backbone is 'timm:NAME' or the path of an .onnx file, not {str(spec)!r}.")
