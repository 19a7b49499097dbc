"""What plans want to know of a plug-in, one declaration in its class: ``traits: ClassVar[ModelTraits] = ...``.

Plans import no torch, so it is read where it stands (``declarations``). A job executes nothing of it, so digests leave
it out (``definitions``): a time that is measured anew makes no result stale. Who declares nothing has the defaults.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from leaklab.records import plugins
from leaklab.records.errors import UserError

# What a plug-in declares in its class, read from its source: importing an attack or a model imports torch.

T = TypeVar("T")


def declaration(
    room: str, name: str, attribute: str, kind: type[T], constants: Mapping[str, Any] | None = None
) -> T | None:
    """Return what plug-in ``name`` of ``room``, or the nearest of its bases, declares; None where none does.

    Args:
        room: of the plug-in.
        name: the plug-in's.
        attribute: of the class.
        kind: dataclass that is called.
        constants: what may stand there by its name.

    Raises:
        UserError: there is no such plug-in, or what it declares cannot be read.
    """
    node = plugins.class_attribute(room, name, attribute)
    if node is None:
        return None
    try:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == kind.__name__ and not node.args):
            raise ValueError(f"it is no call of {kind.__name__} with named arguments")
        return kind(**{str(keyword.arg): value_of(keyword.value, constants or {}) for keyword in node.keywords})
    except (TypeError, ValueError) as reason:
        words = f"with literals or {', '.join(constants)}" if constants else "with literals"
        raise UserError(
            f"{room} plug-in '{name}' declares no readable {attribute} ({reason}): write "
            f"'{attribute}: ClassVar[{kind.__name__}] = {kind.__name__}(...)' {words}"
        ) from None


def chosen(room: str, name: str, settings: Mapping[str, Any], setting: str) -> Any:
    """Return what a setting is set to: by ``settings``, or by the plug-in's class; None where it has no such setting.

    Raises:
        UserError: there is no such plug-in.
    """
    default = plugins.class_attribute(room, name, setting)
    return settings.get(setting, None if default is None else ast.literal_eval(default))


def value_of(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of literals and of constants by name, within tuples and mappings too.

    Raises:
        ValueError: there is anything else.
    """
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Tuple):
        parts = [
            value_of(part.value, constants) if isinstance(part, ast.Starred) else (value_of(part, constants),)
            for part in node.elts
        ]
        return tuple(one for part in parts for one in part)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {ast.literal_eval(key): value_of(value, constants) for key, value in pairs if key is not None}
    return ast.literal_eval(node)


LBFGS_STEP = 20
"""Most evaluations of an outer iteration of L-BFGS (``max_iter`` of the attacks' optimiser)."""


@dataclass(frozen=True, kw_only=True)
class AttackTraits:
    """Of attacks, on text too.

    Attributes:
        evaluations: of the matching loss, at most, in one iteration of one start: a number, or the setting that is it.
        evaluations_when: setting -> its value -> the same where it has that value.
        again: setting that says how often besides all of them are done; empty for never.
        keeps_state: whether its searches can be left and taken up again (``savepoints.py``), so that a chunk
            of trials that takes too long is searched in a chain of pieces.
        memory_mb: to ask for, in MB, where that is more than its stage takes.
        used: share of its evaluations that its searches usually make before they end, by records of scale ``small``.
        evaluation_factor: of an evaluation, as a multiple of one of a plain matching loss.
        unrolls: whether an evaluation does the local steps again.
        drawn: whether a candidate is an image that a generator draws, and costs one gradient without derivatives of it.
        update_seconds: of an attack without a search: of one update of one image.
        batch_power: how that grows with the images of an update.
    """

    evaluations: int | str = 1
    evaluations_when: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    again: str = ""
    keeps_state: bool = False
    memory_mb: int = 0
    used: float = 1.0
    evaluation_factor: float = 1.0
    unrolls: bool = False
    drawn: bool = False
    update_seconds: float = 0.1
    batch_power: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ModelTraits:
    """Of models of images; times are of one core of a 2-core CPU machine (``benchmarks/growth.md``, and records).

    Attributes:
        first_affine: setting that is the number of units of the first layer, which is affine with a bias; empty where
            these are the classes, None where the first layer is another one.
        head_bias: whether the last layer is affine with a bias.
        has_frozen_part: whether there is a frozen part, which a backbone fills (``Architecture.frozen``).
        batch_statistics: whether batch normalisations mix the samples in training state.
        step_microseconds: of a client's step on a batch of 32 gray images of 28x28.
        matching_milliseconds: that one evaluation of a matching loss takes more for each image and local step; None
            where it was never measured.
        own_side: whether images are enlarged to a size of the network's own, so that theirs costs nothing.
        generative_milliseconds: of one candidate of a generative attack, in float32: an image drawn, and one gradient
            without derivatives of it.
        measured_width: setting ``width`` of the network whose candidate was measured; 0 for any. Narrower ones take
            less.
        weights_mb: of the weights in float32, for the inputs with which items use it.
    """

    first_affine: str | None = None
    head_bias: bool = True
    has_frozen_part: bool = False
    batch_statistics: bool = False
    step_microseconds: float = 10_000.0
    matching_milliseconds: float | None = None
    own_side: bool = False
    generative_milliseconds: float = 15.0
    measured_width: int = 0
    weights_mb: float = 1.0


@dataclass(frozen=True, kw_only=True)
class TextModelTraits:
    """Of models of sentences.

    Attributes:
        decoder: whether a token sees only those before it; then the next one can be the loss.
    """

    decoder: bool = False


@dataclass(frozen=True, kw_only=True)
class AlgorithmTraits:
    """Of federated algorithms.

    Attributes:
        networks_kept: how many networks a training keeps for each of its clients; a classifier is a part of one.
        heads: setting that is the number of hidden units of a hypernetwork that goes back and forth, which has as many
            heads of the network's size; empty for the network itself.
        step_factor: of a client's step, as a multiple of one of FedAvg (``benchmarks/algorithms.md``).
    """

    networks_kept: float = 0.0
    heads: str = ""
    step_factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class DefenseTraits:
    """Of defenses.

    Attributes:
        least_batch: setting that is how many samples of a batch it looks at; empty for any number.
        budget: two settings, a privacy budget that may be asked for and the noise by which it is kept; empty for none.
        step_factor: of a client's step, as a multiple of one without defense (``benchmarks/defenses.md``).
    """

    least_batch: str = ""
    budget: tuple[str, ...] = ()
    step_factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class MetricTraits:
    """Of metrics.

    Attributes:
        reads_the_update: whether it needs what the server saw and the attack's generator, besides images.
        reads_the_search: whether it reads what the search left, and compares no images.
    """

    reads_the_update: bool = False
    reads_the_search: bool = False


@dataclass(frozen=True, kw_only=True)
class ServerTraits:
    """Of malicious servers.

    Attributes:
        isolates: whether the answer is that of one sample, whatever the batch.
        needs_head: whether the model has to end in an affine layer with a bias.
    """

    isolates: bool = False
    needs_head: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckTraits:
    """Of numerical checks of theory.

    Attributes:
        timed: metrics that it measures with a clock: only they may differ when it runs again.
        seconds: that it takes as items ask for it, by records of scale ``small``.
    """

    timed: tuple[str, ...] = ()
    seconds: float = 20.0


@cache
def attack_traits(name: str, room: str = "attacks") -> AttackTraits:
    """Return what an attack declares, in ``attacks`` or ``attacks/text``.

    Raises:
        UserError: there is no such plug-in, or what it declares cannot be read.
    """
    return declaration(room, name, "traits", AttackTraits, {"LBFGS_STEP": LBFGS_STEP}) or AttackTraits()


@cache
def model_traits(name: str) -> ModelTraits:
    """Return what a model declares; see ``attack_traits``."""
    return declaration("models", name, "traits", ModelTraits) or ModelTraits()


@cache
def text_model_traits(name: str) -> TextModelTraits:
    """Return what a model of sentences declares; see ``attack_traits``."""
    return declaration("models/text", name, "traits", TextModelTraits) or TextModelTraits()


@cache
def algorithm_traits(name: str) -> AlgorithmTraits:
    """Return what a federated algorithm declares; see ``attack_traits``."""
    return declaration("federated/algorithms", name, "traits", AlgorithmTraits) or AlgorithmTraits()


@cache
def defense_traits(name: str) -> DefenseTraits:
    """Return what a defense declares; see ``attack_traits``."""
    return declaration("defenses", name, "traits", DefenseTraits) or DefenseTraits()


@cache
def metric_traits(name: str) -> MetricTraits:
    """Return what a metric declares; see ``attack_traits``."""
    return declaration("metrics", name, "traits", MetricTraits) or MetricTraits()


@cache
def server_traits(name: str) -> ServerTraits:
    """Return what a malicious server declares; see ``attack_traits``."""
    return declaration("observations/servers", name, "traits", ServerTraits) or ServerTraits()


@cache
def check_traits(name: str) -> CheckTraits:
    """Return what a numerical check declares; see ``attack_traits``."""
    return declaration("theory", name, "traits", CheckTraits) or CheckTraits()


def evaluations_an_iteration(attack: str, settings: Mapping[str, Any], room: str = "attacks") -> int:
    """Return how often an attack of these settings evaluates its loss in an iteration of a start, at most."""
    said = attack_traits(attack, room)
    counted: int | str = said.evaluations
    for setting, by_value in said.evaluations_when.items():
        counted = by_value.get(chosen(room, attack, settings, setting), counted)
    number = chosen(room, attack, settings, counted) if isinstance(counted, str) else counted
    again = chosen(room, attack, settings, said.again) if said.again else 0
    return int(number) * (1 + int(again))
