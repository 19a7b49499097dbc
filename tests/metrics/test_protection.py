import numpy as np
import pytest

from leaklab.metrics.protection import protection_left
from leaklab.records.streams import stream

UNDEFENDED, REFERENCE = np.arange(8.0), 40 + np.arange(8.0) ** 2


@pytest.mark.parametrize("median", [True, False])
@pytest.mark.parametrize(("better", "sign"), [("higher", 1), ("lower", -1)])
def test_its_ends_are_no_defense_and_the_reference(better, sign, median):
    none, most = sign * UNDEFENDED, sign * REFERENCE
    assert protection_left(none, none, most, better, median).value == 0
    assert protection_left(none, most, most, better, median).value == pytest.approx(100)


def test_it_is_linear_between_the_medians_and_goes_beyond_them():
    # medians 3.5 and 52.5
    found = protection_left(UNDEFENDED, np.full(8, 28.0), REFERENCE, "higher")
    assert found.value == pytest.approx(50)
    assert protection_left(UNDEFENDED, np.full(8, 101.5), REFERENCE, "higher").value == pytest.approx(200)
    assert protection_left(UNDEFENDED, np.full(8, -45.5), REFERENCE, "higher").value == pytest.approx(-100)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_an_undefended_attack_that_is_no_better_than_the_reference_gives_no_number(better):
    sign = 1 if better == "higher" else -1
    assert protection_left(sign * REFERENCE, sign * REFERENCE, sign * UNDEFENDED, better) is None
    assert protection_left(REFERENCE, UNDEFENDED, REFERENCE, better) is None


def test_levels_are_of_the_same_clusters():
    with pytest.raises(ValueError, match="three times"):
        protection_left([1.0, 2.0], [1.0], [3.0, 4.0], "higher")


def test_below_six_clusters_there_is_no_interval():
    few = protection_left(UNDEFENDED[:5], UNDEFENDED[:5] + 1, REFERENCE[:5], "higher")
    assert (few.low, few.high) == (None, None)


def test_the_interval_repeats_and_covers_the_true_share_about_19_times_in_20():
    hits, widths = 0, []
    for trial in range(200):
        draws = stream(trial, "protection")
        # what an image shares between the three cancels in pairs
        image = 5 * draws.normal(20).numpy()
        noise = draws.normal(3, 20).numpy()
        found = protection_left(image + noise[0], image + 5 + noise[1], image + 20 + noise[2], "higher", median=False)
        hits += found.low <= 25 <= found.high
        widths.append(found.high - found.low)
    again = protection_left(image + noise[0], image + 5 + noise[1], image + 20 + noise[2], "higher", median=False)
    assert again == found
    assert 178 <= hits <= 199
    # without pairs the images' own spread, 5, would be in it: a reach of 1.96 * 5 / sqrt(20) of 20
    assert np.mean(widths) < 100 * 2 * 1.96 * 5 / np.sqrt(20) / 20
