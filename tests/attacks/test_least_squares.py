"""Least squares of systems without full rank: the solution of smallest norm, as by the pseudo-inverse."""

import pytest
import torch

from leaklab.attacks.least_squares import least_squares

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("driver", ["gelsy", "gelsd"])
def test_a_system_without_full_rank_has_the_solution_of_smallest_norm(device, driver):
    draws = torch.Generator().manual_seed(3)
    thin = torch.randn(2, 9, 2, generator=draws, dtype=torch.float64)
    a = thin @ torch.randn(2, 2, 4, generator=draws, dtype=torch.float64)
    b = torch.randn(2, 9, 3, generator=draws, dtype=torch.float64)
    found = least_squares(a.to(device), b.to(device), driver)
    assert found.device.type == device
    torch.testing.assert_close(found.cpu(), torch.linalg.pinv(a) @ b)
