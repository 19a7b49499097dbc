"""Decompositions on which LAPACK's usual driver gives up are another driver's; all others stay the usual one's."""

import numpy as np
import pytest
import torch

from leaklab.records import linear_algebra, tensor_algebra
from leaklab.records.streams import stream

SHAPES = [(6, 9), (9, 6), (1, 4), (5, 5)]


def matrix_of(shape, dtype=torch.float64):
    """Return a matrix that lacks one of its ranks, where it has any to lose."""
    found = stream(0, "matrix").normal(*shape).to(dtype)
    if min(shape[-2:]) > 1:
        found[..., -1, :] = found[..., 0, :]
    return found


def side(shape, dtype=torch.float64):
    return stream(1, "side").normal(*shape[:-1], 2).to(dtype)


ARRAYS = {
    "svd": (linear_algebra.svd, lambda m: np.linalg.svd(m, full_matrices=False)),
    "full svd": (lambda m: linear_algebra.svd(m, full=True), np.linalg.svd),
    "pinv": (lambda m: [linear_algebra.pseudo_inverse(m)], lambda m: [np.linalg.pinv(m)]),
    "lstsq": (
        lambda m: [linear_algebra.least_squares_of(m, m @ np.ones(m.shape[1]))],
        lambda m: [np.linalg.lstsq(m, m @ np.ones(m.shape[1]), rcond=None)[0]],
    ),
}
TENSORS = {
    "svd": (tensor_algebra.svd, lambda m: torch.linalg.svd(m, full_matrices=False)),
    "full svd": (lambda m: tensor_algebra.svd(m, full=True), torch.linalg.svd),
    "svdvals": (lambda m: [tensor_algebra.singular_values(m)], lambda m: [torch.linalg.svdvals(m)]),
    "eigh": (lambda m: tensor_algebra.eigh(m @ m.mT), lambda m: torch.linalg.eigh(m @ m.mT)),
    "eigvalsh": (lambda m: [tensor_algebra.eigenvalues(m @ m.mT)], lambda m: [torch.linalg.eigvalsh(m @ m.mT)]),
    "pinv": (lambda m: [tensor_algebra.pseudo_inverse(m)], lambda m: [torch.linalg.pinv(m)]),
    "matrix_norm": (lambda m: [tensor_algebra.spectral_norm(m)], lambda m: [torch.linalg.matrix_norm(m, 2)]),
    "lstsq": (
        lambda m: [tensor_algebra.least_squares_of(m, side(m.shape).to(m), "gelsd")],
        lambda m: [torch.linalg.lstsq(m, side(m.shape).to(m), driver="gelsd").solution],
    ),
}


@pytest.fixture
def no_usual_driver(monkeypatch):
    """All usual drivers give up."""

    def array(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    def tensor(*_, **__):
        raise torch.linalg.LinAlgError("linalg.svd: the algorithm failed to converge")

    def give_up():
        for name in ("svd", "pinv", "lstsq"):
            monkeypatch.setattr(np.linalg, name, array)
        for name in ("svd", "svdvals", "eigh", "eigvalsh", "pinv", "matrix_rank", "matrix_norm", "lstsq"):
            monkeypatch.setattr(torch.linalg, name, tensor)

    return give_up


def without_signs(name, parts):
    """Return what does not depend on the choice of vectors: singular values, and the product of the parts."""
    if name in ("svd", "full svd"):
        left, sizes, right = (torch.as_tensor(part) for part in parts)
        count = sizes.shape[-1]
        return [sizes, (left[..., :, :count] * sizes[..., None, :]) @ right[..., :count, :], left.mT @ left]
    if name == "eigh":
        values, vectors = parts
        return [values, (vectors * values[..., None, :]) @ vectors.mT]
    return [torch.as_tensor(part) for part in parts]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_whose_driver_converges_has_its_bytes(name, shape):
    own, usual = ARRAYS[name]
    matrix = matrix_of(shape).numpy()
    assert [one.tobytes() for one in own(matrix)] == [one.tobytes() for one in usual(matrix)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 6, 4), (2, 3, 4, 6)])
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_whose_driver_converges_has_its_bytes(name, shape, dtype):
    own, usual = TENSORS[name]
    matrix = matrix_of(shape, dtype)
    assert all(torch.equal(one, other) for one, other in zip(own(matrix), usual(matrix), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_on_which_the_usual_driver_fails_is_decomposed_by_the_other(name, shape, no_usual_driver):
    own, usual = ARRAYS[name]
    matrix = matrix_of(shape).numpy()
    before = without_signs(name, usual(matrix))
    no_usual_driver()
    for one, other in zip(without_signs(name, own(matrix)), before, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 6, 4), (2, 3, 4, 6)])
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_on_which_the_usual_driver_fails_is_decomposed_by_the_other(name, shape, dtype, no_usual_driver):
    own, usual = TENSORS[name]
    matrix = matrix_of(shape, dtype)
    before = without_signs(name, usual(matrix))
    no_usual_driver()
    for one, other in zip(without_signs(name, own(matrix)), before, strict=True):
        torch.testing.assert_close(one, other, **({} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}))


@pytest.mark.parametrize("share", [None, 1e-8, 0.5])
def test_the_rank_is_the_same_by_both_drivers(share, no_usual_driver):
    matrix = matrix_of((6, 9))
    before = tensor_algebra.rank(matrix, share)
    assert before == int(torch.linalg.matrix_rank(matrix, rtol=share))
    no_usual_driver()
    assert tensor_algebra.rank(matrix, share) == before


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_not_finite_has_no_second_driver(name, monkeypatch):
    monkeypatch.setattr(linear_algebra, "other_svd", None)
    matrix = matrix_of((6, 9)).numpy()
    matrix[2, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        ARRAYS[name][0](matrix)


def test_a_tensor_that_is_not_finite_has_no_second_driver():
    matrix = matrix_of((6, 9))
    matrix[2, 3] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError):
        tensor_algebra.svd(matrix)


def test_a_gradient_is_not_lost_in_silence(no_usual_driver):
    matrix = matrix_of((6, 9)).requires_grad_()
    no_usual_driver()
    with pytest.raises(torch.linalg.LinAlgError):
        tensor_algebra.svd(matrix)


def test_two_drivers_that_fail_say_so(no_usual_driver, monkeypatch):
    import scipy.linalg

    def fails(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(scipy.linalg, "svd", fails)
    no_usual_driver()
    with pytest.raises(torch.linalg.LinAlgError):
        tensor_algebra.svd(matrix_of((6, 9)))
    with pytest.raises(np.linalg.LinAlgError):
        linear_algebra.svd(matrix_of((6, 9)).numpy())
