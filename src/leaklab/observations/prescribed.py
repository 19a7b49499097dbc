"""The rate that the server prescribes in the captured round, from the spec alone."""

from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.errors import UserError


def round_factor(spec: CaptureSpec) -> float:
    """Return the factor of the schedule on the rate in the captured round.

    Raises:
        UserError: there is nothing left of it.
    """
    schedule = plugins.load("federated/schedules", spec.schedule.name, spec.schedule.settings)
    state = spec.state
    index, rounds = (state.round, state.train.rounds) if state and state.train is not None else (0, 1)
    factor: float = schedule.factor(index, rounds)
    if not factor > 0:
        raise UserError(
            f"schedule '{spec.schedule.name}' ends with round {rounds}, and nothing moves after it: "
            "capture an earlier state"
        )
    return factor


def assumed_rate(spec: CaptureSpec) -> float:
    """Return the sum of the rates of all nominal steps, by which the server turns a delta into a gradient.

    Raises:
        UserError: the schedule has ended.
    """
    return spec.rate * round_factor(spec) * sum(spec.step_factors(spec.local_steps))
