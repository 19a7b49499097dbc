import torch

from leaklab.metrics.labels import recovered_labels


def test_labels_are_compared_as_multisets():
    truth = torch.tensor([[1, 1, 2, 3]])
    assert recovered_labels(torch.tensor([[3, 1, 5, 2]]), truth).tolist() == [[1, 0, 1, 1]]
    assert recovered_labels(torch.tensor([[1, 1, 1, 1]]), truth).tolist() == [[1, 1, 0, 0]]
    assert recovered_labels(torch.tensor([[-1, -1, -1, -1]]), truth).tolist() == [[0, 0, 0, 0]]


def test_a_single_label_is_right_or_wrong():
    assert recovered_labels(torch.tensor([[4], [5]]), torch.tensor([[4], [4]])).tolist() == [[1], [0]]
