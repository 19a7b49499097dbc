"""Pool peel's benchmark: what was chosen on is not what is shown, and the page counts what the table holds."""

import pandas as pd
import pytest
from pool_peel.cases import ATTACKERS, CHOSEN_ON, HELD_OUT, SEEN, WORKLOADS, psnr
from pool_peel.page import page
from torch import full, zeros


def test_no_image_that_settings_were_chosen_on_is_held_out():
    assert not set(HELD_OUT) & {*CHOSEN_ON, *SEEN}
    assert len(HELD_OUT) == 24
    shown = {image for workload in WORKLOADS if workload.images not in (CHOSEN_ON, SEEN) for image in workload.images}
    assert min(shown) >= HELD_OUT.start
    assert len({workload.title for workload in WORKLOADS}) == len(WORKLOADS)
    assert {name for workload in WORKLOADS for name in workload.attackers} <= set(ATTACKERS)


def test_decibels_are_those_of_images_in_their_range():
    assert psnr(full((4,), 1.5), full((4,), 0.9)) == pytest.approx(20)
    assert psnr(full((4,), -3.0), zeros(4)) == float("inf")


def test_the_page_counts_what_was_read_closed_and_certified_wrongly():
    common = {"workload": "plain", "attacker": "pool-peel", "mean_psnr": 11.0, "seconds": 2.0, "closed": True}
    rows = [
        {**common, "image": 1, "psnr": 29.9, "certified": False, "closed": False},
        {**common, "image": 2, "psnr": 30.0, "certified": True},
        {**common, "image": 3, "psnr": 99.0, "certified": True, "seconds": 7.0},
        {"workload": "plain", "attacker": "annealed-map", "image": 1, "psnr": 15.0, "mean_psnr": 11.0, "seconds": 1.0},
        {"workload": "noise", "attacker": "pool-peel", "image": 1, "refused": "no"},
    ]
    text = page(pd.DataFrame(rows), "## Besides")
    assert "| plain | pool-peel | 3 | 2 | 30.0 | 29.9 | 99.0 | 11.0 | 2 | 2 | 1 | 2.0 | 7.0 |" in text
    assert "| plain | annealed-map | 1 | 0 | 15.0 | 15.0 | 15.0 | 11.0 | - | - | - | 1.0 | 1.0 |" in text
    assert "* **noise**: no." in text
    assert text.endswith("## Besides\n")
