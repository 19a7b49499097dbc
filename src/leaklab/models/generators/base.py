"""What a generator is: latents and class probabilities in, images on the [0, 1] scale out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from leaklab.models.base import Shape
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors


class Generator(nn.Module):
    """Base of all generators; a subclass makes images in ``forward`` and is called through ``generate``.

    Attributes:
        latent_size: d, numbers in one latent; the prior is N(0, 1) in each.
        num_classes: K.
        image_shape: (channels, height, width) of one image.
    """

    def __init__(self, latent_size: int, num_classes: int, image_shape: Shape) -> None:
        """Remember the sizes.

        Raises:
            UserError: a size is not positive.
        """
        super().__init__()
        if min(latent_size, num_classes, *image_shape) < 1:
            raise UserError("a generator needs at least one latent number, one class and one pixel: raise its sizes")
        self.latent_size, self.num_classes, self.image_shape = latent_size, num_classes, image_shape

    def generate(self, latents: Tensor, classes: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [0, 1].

        Args:
            latents: [N, d].
            classes: class probabilities [N, K], e.g. one-hot.

        Raises:
            UserError: wrong latent size, class count or number of rows.
        """
        if latents.dim() != 2 or latents.shape[1] != self.latent_size:
            raise UserError(f"the generator takes latents [N, {self.latent_size}], not {list(latents.shape)}")
        if list(classes.shape) != [len(latents), self.num_classes]:
            wanted = [len(latents), self.num_classes]
            raise UserError(f"the generator takes class probabilities {wanted}, not {list(classes.shape)}")
        images: Tensor = self(latents, classes)
        return images

    def require(self, image_shape: tuple[int, ...], num_classes: int) -> None:
        """Refuse a victim that takes other images or knows another number of classes.

        Raises:
            UserError: says what the generator makes.
        """
        if (tuple(image_shape), num_classes) != (self.image_shape, self.num_classes):
            made, taken = ("x".join(str(side) for side in shape) for shape in (self.image_shape, image_shape))
            raise UserError(
                f"the generator makes {made} images of {self.num_classes} classes, the victim takes {taken} images of "
                f"{num_classes}: choose a generator that was trained on the victim's dataset"
            )

    def frozen(self) -> "Generator":
        """Put the generator into the state in which attacks use it: evaluation, no gradients for its weights."""
        return self.eval().requires_grad_(requires_grad=False)

    def require_frozen(self) -> None:
        """Refuse a generator whose batch normalisations would mix the images of one call.

        Raises:
            UserError: it is in training state.
        """
        if any(layer.training for layer in self.modules()):
            raise UserError("the generator is in training state: call frozen() before an attack uses it")


# A generator on disk: weights as safetensors, and beside them a description from which the network is rebuilt.

ROOM = "models/generators"


def save_generator(path: Path, generator: Generator, name: str, settings: Mapping[str, Any]) -> None:
    """Write ``path`` (safetensors) and the description beside it (same name, ``.json``).

    Args:
        path: of the weights.
        generator: to be written.
        name: the plug-in that made it.
        settings: of the plug-in.
    """
    write_tensors(path, generator.state_dict())
    sizes = {"num_classes": generator.num_classes, "image_shape": list(generator.image_shape)}
    write_json(path.with_suffix(".json"), {"name": name, "settings": dict(settings), **sizes})


def load_generator(path: Path) -> Generator:
    """Return the generator of ``path``, frozen, on the CPU.

    Raises:
        UserError: a file is missing or damaged, or the weights are not those that the description speaks of.
    """
    card, weights = read_json(path.with_suffix(".json")), read_tensors(path)
    if not isinstance(card, dict) or set(card) != {"name", "settings", "num_classes", "image_shape"}:
        raise _unfit(path, "its description lacks the name, settings, num_classes or image_shape")
    try:
        generator = _described(card)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, UserError) as error:
        raise _unfit(path, f"no network is made from its description ({error})") from None
    problem = _difference(generator.state_dict(), weights)
    if problem:
        raise _unfit(path, problem)
    generator.load_state_dict(weights, strict=True)
    return generator.frozen()


def _described(card: Mapping[str, Any]) -> Generator:
    """Return the network of a description; one with odd values raises whatever the makers of its layers do."""
    if not isinstance(card["settings"], dict):
        raise TypeError("its settings are no names and values")
    channels, height, width = card["image_shape"]
    architecture = plugins.load(ROOM, card["name"], card["settings"])
    generator: Generator = architecture.generator((channels, height, width), card["num_classes"])
    return generator


def _difference(wanted: dict[str, Tensor], found: dict[str, Tensor]) -> str | None:
    if set(wanted) != set(found):
        return f"'{min(set(wanted) ^ set(found))}' is missing or unknown"
    for name, value in wanted.items():
        if (value.shape, value.dtype) != (found[name].shape, found[name].dtype):
            shape = list(found[name].shape)
            return f"'{name}' is {found[name].dtype} {shape}, not {value.dtype} {list(value.shape)}"
        if not bool(found[name].isfinite().all()):
            return f"'{name}' holds numbers that are not finite"
    return None


def _unfit(path: Path, problem: str) -> UserError:
    return UserError(f"{path} is no generator: {problem}; delete it and train the generator again")
