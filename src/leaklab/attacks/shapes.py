"""What an attack returns is checked once, where it comes back: a plug-in of one's own may get it wrong."""

from leaklab.attacks.base import Reconstruction
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


def check_shapes(found: Reconstruction, observation: Observation, knowledge: Knowledge, attack: str) -> None:
    """Refuse a reconstruction that is not one of these trials.

    Args:
        found: what ``reconstruct`` returned.
        observation: the T trials that it was given.
        knowledge: tells the samples B of a step and the shape of an input, where the threat model grants them; an
            update of E steps may have up to E B samples, of whole batches.
        attack: plug-in name, for the message.

    Raises:
        UserError: with the plug-in's file, the field, its shape and the one that was expected.
    """
    file = f"attacks/{attack.replace('-', '_')}.py"
    if not isinstance(found, Reconstruction):
        raise UserError(f"{file}: reconstruct returned {type(found).__name__}: return a Reconstruction")
    trials, own = len(observation.trials), found.labels.shape[-1]
    batch, steps = knowledge.facts.get("batch_size", own), knowledge.facts.get("local_steps", 1)
    batch = own if own in range(batch, steps * batch + 1, batch) else batch
    sample = tuple(knowledge.facts.get("input_shape", found.images.shape[2:]))
    starts = tuple(found.candidates.shape[1:2])
    expected = {
        "images": (trials, batch, *sample),
        "labels": (trials, batch),
        "candidates": (trials, *starts, batch, *sample),
        "candidate_losses": (trials, *starts),
        "scale": (trials,),
    }
    for field, shape in expected.items():
        returned = tuple(getattr(found, field).shape)
        if returned != shape:
            raise UserError(f"{file}: reconstruct returned {field} of shape {list(returned)}: make it {list(shape)}")
