"""Pixels of DICOM files, and nothing else of them."""

import io

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, MissingExtraError
from pnca.vision import read_image, read_pixels
from pnca.vision.dicom import dicom_pixels, is_dicom

pydicom = pytest.importorskip("pydicom")


def written(path, pixels, *, kind="MONOCHROME2", slope=None):
    """A DICOM file of a patient with a name."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        SecondaryCaptureImageStorage,
        generate_uid(),
    )
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    found = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    found.PatientName, found.PatientID = "Doe^Jane", "4711"
    found.Rows, found.Columns = pixels.shape[-2:] if pixels.ndim == 2 else pixels.shape[:2]
    found.SamplesPerPixel = 1 if pixels.ndim == 2 else 3
    found.PhotometricInterpretation = kind
    found.BitsAllocated = found.BitsStored = 8 * pixels.itemsize
    found.HighBit, found.PixelRepresentation = 8 * pixels.itemsize - 1, 0
    if pixels.ndim == 3:
        found.PlanarConfiguration = 0
    if slope is not None:
        found.RescaleSlope, found.RescaleIntercept = slope, -1024
    found.PixelData = pixels.tobytes()
    found.save_as(path, enforce_file_format=True)
    return path


@pytest.fixture
def ramp():
    """Twelve bits in sixteen."""
    return np.linspace(0, 4095, 64).astype(np.uint16).reshape(8, 8)


def test_read_pixels__of_dicom_are_stretched_like_any_deep_image(tmp_path, ramp):
    path = written(tmp_path / "a.dcm", ramp)
    assert is_dicom(path.read_bytes())
    expected = np.rint((ramp - ramp.min()) * (255 / np.ptp(ramp))).astype(np.uint8)
    np.testing.assert_array_equal(read_pixels(path), expected)
    assert read_image(path).shape == (224, 224, 3)


def test_dicom_pixels__are_lighter_where_larger_and_in_units(tmp_path, ramp):
    bright = dicom_pixels(written(tmp_path / "a.dcm", ramp).read_bytes(), "a")
    inverted = dicom_pixels(written(tmp_path / "b.dcm", ramp, kind="MONOCHROME1").read_bytes(), "b")
    np.testing.assert_array_equal(inverted, -bright.astype(float))
    in_units = dicom_pixels(written(tmp_path / "c.dcm", ramp, slope=2).read_bytes(), "c")
    np.testing.assert_array_equal(in_units, 2.0 * ramp - 1024)


def test_dicom_pixels__of_colours(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(read_pixels(written(tmp_path / "a.dcm", colours, kind="RGB")), colours)


@pytest.mark.parametrize("cut", [200, -20])
def test_read_pixels__a_broken_file_is_named_and_the_patient_is_not(tmp_path, ramp, cut):
    path = written(tmp_path / "a.dcm", ramp)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CorruptDataError, match=r"DICOM image .*a\.dcm cannot be read") as caught:
        read_pixels(path)
    assert "Doe" not in str(caught.value)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_dicom_pixels__without_pydicom_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[dicom\]"):
        dicom_pixels(io.BytesIO(b"").getvalue(), "a")


def test_dicom__of_a_stranger_is_limited_before_it_is_decoded(tmp_path, ramp):
    from pnca.exceptions import InvalidInputError
    from pnca.vision.images import ImageLimits, decode_image

    content = written(tmp_path / "a.dcm", ramp).read_bytes()
    assert decode_image(content, path="a", limits=ImageLimits(max_pixels=64)).size == (8, 8)
    with pytest.raises(InvalidInputError, match=r"too many pixels \(64 of 63"):
        decode_image(content, path="a", limits=ImageLimits(max_pixels=63))
    deflated = content.replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99")
    with pytest.raises(InvalidInputError, match="compressed as a whole"):
        decode_image(deflated, path="a", limits=ImageLimits())
