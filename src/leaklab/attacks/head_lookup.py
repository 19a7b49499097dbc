"""Head lookup: the public image whose features are nearest to those in the head's update.

The features follow from the head's update whatever factor a client hides (``head_features``). No picture follows from
them without a search; but among images that are at hand the one with these features does.

Source: the quotient is that of "Inverting Gradients", proposition 3.1, on the last layer; the lookup is ours.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.base import Attack, Case, Reconstruction
from leaklab.attacks.labels.head import apart, features_of, head_features, public_images
from leaklab.attacks.latents.scene import scene_of_case
from leaklab.attacks.reconstructions import read_off
from leaklab.observations.declared import SAMPLES, Requirements

NAME = "head-lookup"


@dataclass(frozen=True)
class HeadLookup:
    """Name the public image of an update of one sample; made for ``class-gaussian`` that keeps images."""

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range", "public_images"), largest_batch=1, generator=True, searches=False
    )

    def reconstruct(self, case: Case) -> Reconstruction:
        """Look every update up without spending the budget.

        Raises:
            UserError: facts are withheld, there is no affine head with a bias, the update is no gradient or not
                finite, or the generator keeps no images or makes others than the victim's.
        """
        scene = scene_of_case(NAME, case)
        images, labels = public_images(scene.generator, NAME)
        pool = features_of(scene.network, scene.as_inputs(images))
        chosen = apart(head_features(scene.observation), pool).argmin(1)
        return read_off(case.observation, images[chosen, None], labels[chosen, None])


PLUGIN: type[Attack] = HeadLookup
