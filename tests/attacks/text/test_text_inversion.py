"""The objective: F1 at the truth, its derivative, and trials that know nothing of each other."""

import pytest
import torch

from leaklab.attacks.text.distances import TEXT_DISTANCES, MeanCosine, Tag
from leaklab.attacks.text.inversion import SentenceFrame, TextInversion
from leaklab.models.text.base import WORD_TABLE, embeddings_of
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, CLASSES = 3, 2


@pytest.fixture
def problem(network, sentence, observe, frame_of):
    """Return the objective and the unknowns that mean the truth."""

    def make(distance, known=True, norm_weight=0.0):
        sentences, labels = [sentence(number) for number in range(TRIALS)], [0, 1, 1]
        observed = observe(sentences, labels)
        frames = [frame_of(ids) for ids in sentences]
        given = torch.tensor(labels) if known else None
        inversion = TextInversion(network, observed, frames, CLASSES, distance, given, norm_weight)
        unit = network.get_parameter(WORD_TABLE).std()
        points = torch.stack([embeddings_of(network, ids[1:-1]).flatten() / unit for ids in sentences]).detach()
        if not known:
            certain = 60 * torch.eye(CLASSES, dtype=torch.float64)[labels]
            points = torch.cat([points, certain], 1)
        return inversion, points

    return make


@pytest.mark.parametrize("name", TEXT_DISTANCES)
@pytest.mark.parametrize("known", [True, False], ids=["label known", "label searched"])
def test_f1_the_loss_vanishes_at_the_truth(problem, name, known):
    inversion, points = problem(TEXT_DISTANCES[name], known)
    values, derivatives = inversion(points, torch.arange(TRIALS))
    assert values.abs().max() < 1e-10
    if name in ("tag-squared", "mean-cosine"):
        # the others have a kink there: a residual of rounding size has a derivative of full size
        smooth = problem(without_kink(name), known)[0]
        assert smooth(points, torch.arange(TRIALS))[1].abs().max() < 1e-8
    assert derivatives.isfinite().all()


def without_kink(name):
    return MeanCosine() if name == "mean-cosine" else Tag(first_weight=0.0, squared=True)


@pytest.mark.parametrize("name", TEXT_DISTANCES)
@pytest.mark.parametrize("known", [True, False], ids=["label known", "label searched"])
def test_the_objective_is_differentiated_correctly(problem, name, known):
    inversion, truth = problem(TEXT_DISTANCES[name], known, norm_weight=0.3)
    points, direction = (stream(2, what).normal(*truth.shape) for what in ("points", "direction"))
    rows, step = torch.arange(TRIALS), 1e-6
    there, back = (inversion(points + sign * step * direction, rows)[0] for sign in (1, -1))
    numerical = (there - back) / (2 * step)
    assert torch.allclose((inversion(points, rows)[1] * direction).sum(1), numerical, rtol=1e-5, atol=1e-9)


def test_a_trial_knows_nothing_of_the_others(problem):
    inversion, truth = problem(Tag())
    points = stream(3, "points").normal(*truth.shape)
    values, derivatives = inversion(points, torch.arange(TRIALS))
    for row in range(TRIALS):
        value, derivative = inversion(points[[row]], torch.tensor([row]))
        assert torch.equal(value[0], values[row])
        assert torch.equal(derivative[0], derivatives[row])


@pytest.mark.parametrize("name", TEXT_DISTANCES)
def test_the_prior_is_the_relative_error_of_the_mean_norm_in_units_of_a_zero_gradient(problem, network, name):
    distance = TEXT_DISTANCES[name]
    point = stream(4, "points").normal(*problem(Tag())[1][:1].shape)
    inversions = [problem(distance, norm_weight=weight)[0] for weight in (2.0, 0.0)]
    with_prior, without = (inversion(point, torch.tensor([0]))[0] for inversion in inversions)
    table = network.get_parameter(WORD_TABLE).detach()
    ratio = (point.view(-1, table.shape[1]) * table.std()).norm(dim=1).mean() / table.norm(dim=1).mean()
    unit = float(inversions[0].loss_of_nothing(0))
    assert unit == 1 if name == "mean-cosine" else unit > 0
    expected = 2 * unit * float(ratio - 1) ** 2
    assert float(with_prior - without) == pytest.approx(expected, rel=1e-9)


def test_the_network_is_left_as_it_was(problem, network):
    before = {name: value.clone() for name, value in network.named_parameters()}
    inversion, points = problem(Tag())
    inversion(points, torch.arange(TRIALS))
    for name, value in network.named_parameters():
        assert value.grad is None, name
        assert torch.equal(value, before[name]), name


def test_bad_input_is_refused(network, sentence, observe, frame_of):
    ids = sentence(0)
    observed = observe([ids], [1])
    broken = {name: value.clone() for name, value in observed.items()}
    broken["classifier.bias"][0, 0] = torch.nan
    for gradients, frames, message in (
        (observed, [], "one frame per trial"),
        (observed, [SentenceFrame(2, 2, 3)], "nothing to search"),
        (broken, [frame_of(ids)], "not finite"),
        ({"classifier.bias": observed["classifier.bias"]}, [frame_of(ids)], "capture the update again"),
    ):
        with pytest.raises(UserError, match=message):
            TextInversion(network, gradients, frames, CLASSES, Tag())
