"""What a generator is: latents and class probabilities in, images on the [0, 1] scale out."""

from torch import Tensor, nn

from leaklab.models.base import Shape
from leaklab.records.errors import UserError


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
