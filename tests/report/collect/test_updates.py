"""Which updates stand behind scores, and what counts together."""

import pandas as pd

from leaklab.metrics.silence import silence_line
from leaklab.report.collect.source import TRAINING, Updates


def scores(*trials, metrics=("mse", "psnr"), silent=()):
    """Return lines for trials of (images, draw)."""
    lines = [
        {"trial": trial, "image": image, "draw": draw, "selection": "best-by-loss", "metric": metric, "value": 0.5}
        for trial, (images, draw) in enumerate(trials)
        for image in images
        for metric in metrics
        if trial not in silent
    ]
    counted = [silence_line(list(silent), [draw for _, draw in trials])] if silent else []
    return pd.DataFrame([*lines, *counted])


def test_all_draws_of_an_update_are_one_cluster_with_one_name():
    found = Updates.of(scores(((4, 8), 0), ((4, 8), 1), ((15, 16), 0)))
    assert found.held == {0: (4, 8), 1: (4, 8), 2: (15, 16)}
    assert found.clusters == found.held
    assert list(found.names.values()) == [((4, 8), 0, 0), ((15, 16), 0, 0)]


def test_of_a_single_update_the_draws_are_counted_and_named():
    found = Updates.of(scores(((4,), 0), ((4,), 1)))
    assert found.clusters == {0: 0, 1: 1}
    assert list(found.names.values()) == [((4,), 0, 0), ((4,), 1, 0)]


def test_an_update_that_is_left_alone_by_silent_ones_is_no_sample_of_draws():
    found = Updates.of(scores(((4,), 0), ((4,), 1), ((8,), 0), ((8,), 1), silent=[2, 3]))
    assert (found.silent, set(found.clusters.values())) == (2, {(4,)})


def test_updates_of_a_training_are_one_cluster_that_is_named_by_its_images():
    first, second = scores(((4,), 0), ((8,), 0)), scores(((15,), 0), ((16,), 0))
    tables = [first.assign(**{TRAINING: "a"}), second.assign(trial=second["trial"] + 2, **{TRAINING: "b"})]
    found = Updates.of(pd.concat(tables, ignore_index=True))
    assert found.clusters == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert found.names == {"a": ((4, 8), 0, 0), "b": ((15, 16), 0, 0)}
    assert found.together == {0: (4, 8), 1: (4, 8), 2: (15, 16), 3: (15, 16)}


def test_the_same_images_in_two_runs_have_two_names():
    table = scores(((4,), 0), ((4,), 0))
    assert list(Updates.of(table).names.values()) == [((4,), 0, 0), ((4,), 0, 1)]


def test_an_image_without_a_value_of_one_metric_makes_no_other_update():
    table = scores(((4, 8), 0), ((15, 16), 0))
    lines = table[(table.metric == "mse") & (table.image != 4)]
    found = Updates.of(table)
    assert found.clusters_of(lines) == [(4, 8), (15, 16), (15, 16)]
    # but what is of another image pairs with nothing
    others = table[(table.metric == "mse") & (table.image != 8)]
    assert found.places_of(lines) != found.places_of(others)


def test_where_nothing_speaks_there_is_none():
    found = Updates.of(scores(((4,), 0), ((8,), 0), silent=[0, 1]))
    assert (found.held, found.names, found.silent) == ({}, {}, 2)
