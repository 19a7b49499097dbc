"""The layers that the convolutional networks of LRP share; only their widths differ (LRP section 4.1, appendix A.2)."""

from torch import nn

from leaklab.models.base import Shape, feature_count


def convolutional_layers(
    input_shape: Shape, num_classes: int, channels: tuple[int, int], hidden: int, dropout: float
) -> dict[str, nn.Module]:
    """Return two 5x5 convolutions without padding, each with 2x2 max pooling and ReLU, and two affine layers.

    Args:
        input_shape: (channels, height, width) of one image.
        num_classes: number of outputs (logits).
        channels: output channels of the two convolutions.
        hidden: width of the hidden affine layer.
        dropout: probability to drop a hidden unit, after the activation; without it there is no such layer.

    Returns:
        conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, dropout1 (if any), fc2.

    Raises:
        UserError: the images are too small.
    """
    first, second = channels
    features: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(input_shape[0], first, 5),
        "pool1": nn.MaxPool2d(2),
        "relu1": nn.ReLU(),
        "conv2": nn.Conv2d(first, second, 5),
        "pool2": nn.MaxPool2d(2),
        "relu2": nn.ReLU(),
        "flatten": nn.Flatten(),
    }
    head: dict[str, nn.Module] = {
        "fc1": nn.Linear(feature_count(features, input_shape), hidden),
        "relu3": nn.ReLU(),
    }
    if dropout:
        head["dropout1"] = nn.Dropout(dropout)
    return features | head | {"fc2": nn.Linear(hidden, num_classes)}
