import torch

from leaklab.metrics.scoring import recovered_labels


def test_labels_are_compared_as_multisets():
    truth = torch.tensor([[1, 1, 2, 3]])
    assert recovered_labels(torch.tensor([[3, 1, 5, 2]]), truth).tolist() == [[1, 0, 1, 1]]
    assert recovered_labels(torch.tensor([[1, 1, 1, 1]]), truth).tolist() == [[1, 1, 0, 0]]


def test_a_label_that_nobody_guessed_is_neither_hit_nor_miss():
    truth = torch.tensor([[1, 1, 2, 3]])

    def values(*guess):
        return [
            None if value != value else value for value in recovered_labels(torch.tensor([guess]), truth)[0].tolist()
        ]

    assert values(-1, -1, -1, -1) == [None] * 4
    assert values(-1, 1, -1, -1) == [1, None, None, None]
    assert values(-1, 1, 5, -1) == [1, 0, None, None]
    assert values(3, 1, 5, -1) == [1, 0, None, 1]
    assert values(3, 1, 5, 6) == [1, 0, 0, 1]


def test_a_single_label_is_right_or_wrong():
    assert recovered_labels(torch.tensor([[4], [5]]), torch.tensor([[4], [4]])).tolist() == [[1], [0]]
