"""What the exact reading of one image does besides its division, and other ways to do it: what stands between.

PYTHONPATH=benchmarks .venv/bin/python -m time_to_picture.parts      writes benchmarks/time_to_picture_parts.md
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from speed.costs import one_thread
from speed.machine import description
from speed.turns import in_turns
from torch import nn

from leaklab.attacks import analytic
from leaklab.attacks.base import Case as Given
from leaklab.attacks.base import Reconstruction, blank
from leaklab.attacks.labels.head import layer_input
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.files import write_text
from leaklab.records.streams import stream
from time_to_picture.cases import CASES, captured
from time_to_picture.workers.ours import ONCE, plan_of

PAGE = Path("benchmarks/time_to_picture_parts.md")
CASE, REPEATS = "mlp-1", 200
AS_IT_IS, TOGETHER = "`analytic`, as it is", "`analytic`, all updates in one call, each"
DIVISION = "the division alone"
Part = Callable[[], object]


def main() -> None:
    """Measure all parts in turns, so that what the machine does besides falls on all of them alike."""
    one_thread()
    (case,) = (one for one in CASES if one.name == CASE)
    observation, knowledge, _ = captured(case)
    text = page(measured(parts(observation, knowledge), REPEATS, len(observation.trials)), len(observation.trials))
    write_text(PAGE, text)
    sys.stdout.write(text)


def measured(made: Mapping[str, Part], repeats: int, updates: int) -> dict[str, float]:
    """Return the median processor seconds of each part for one update."""
    seconds = in_turns(made, repeats)
    return {name: own / (updates if name == TOGETHER else 1) for name, own in seconds.items()}


def parts(observation: Observation, knowledge: Knowledge) -> dict[str, Part]:
    """Return the parts by what they are; all but the building of the network return the image."""
    one = observation.select([0])
    weight, bias = list(one.update.values())[:2]
    built = analytic.victim(one, knowledge, "analytic")
    return {
        AS_IT_IS: partial(read, one, knowledge),
        "of it: the network, built without weights": partial(blank, one, knowledge, "analytic"),
        "the network, built with its weights and asked for its first layer": partial(
            analytic.victim, one, knowledge, "analytic"
        ),
        "the same reading, where torch draws no first weights": partial(without_draws, one, knowledge),
        "the same reading, with the network at hand": partial(with_network, built, one, knowledge),
        TOGETHER: partial(read, observation, knowledge),
        DIVISION: lambda: layer_input(weight, bias),
    }


def read(observation: Observation, knowledge: Knowledge) -> Reconstruction:
    """Read the images as a user's call does, without the start of its process."""
    (case,) = (one for one in CASES if one.name == CASE)
    attack = plan_of("exact", case).searches[0][0]
    return attack.reconstruct(Given(observation, knowledge, ONCE, partial(stream, 0, "attack"), None, None))


def with_network(network: Any, observation: Observation, knowledge: Knowledge) -> Reconstruction:
    """Read the image by a network that an earlier call built."""
    with patch.object(analytic, "victim", lambda *_: network):
        return read(observation, knowledge)


def without_draws(observation: Observation, knowledge: Knowledge) -> Reconstruction:
    """Read the image where torch's layers are left without first weights, which the observed ones replace anyway."""
    with patch.object(nn.Linear, "reset_parameters", lambda _: None):
        return read(observation, knowledge)


def page(seconds: Mapping[str, float], updates: int) -> str:
    """Return the page.

    Args:
        seconds: by part.
        updates: of the call that reads all.
    """
    unit = seconds[AS_IT_IS]
    lines = [f"| {name} | {1e3 * own:.3f} | {own / unit:.2f} |" for name, own in seconds.items()]
    return (
        "# Parts of an exact reading\n\n"
        f"`PYTHONPATH=benchmarks .venv/bin/python -m time_to_picture.parts` made this page on\n{description()}:\n"
        f"the case *MLP, one image* of [time to a picture](time_to_picture.md), one update ({updates} where all are\n"
        f"read in one call), one thread; medians of processor time over {REPEATS} turns.\n\n"
        "| part | CPU ms | x as it is |\n| --- | --: | --: |\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
