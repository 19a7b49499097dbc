"""Who needs what: attacks against threat models, transforms against defenses, checked before any job runs.

Planning a hundred jobs imports no torch: what a plug-in declares is read from its source (``declared.py``).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from leaklab.observations.client_requirements import check_optimizer
from leaklab.observations.declared import KNOWN_LABELS, declared, is_default
from leaklab.observations.threat_models import Fact, granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.traits import chosen, text_model_traits
from leaklab.specs.attack import ATTACKS, TRANSFORMS, AttackSpec
from leaklab.specs.capture import ClientChoice
from leaklab.specs.generator import GENERATORS, GeneratorSpec
from leaklab.specs.text import TEXT_ATTACKS, TextAttackSpec
from leaklab.specs.training import PartitionChoice


def refusal(attack: str, fact: str, threat_model: str) -> UserError:
    """Return the error for a fact that is needed and not granted."""
    return UserError(
        f"attack '{attack}' needs '{fact}', which threat model '{threat_model}' withholds: "
        "choose another attack or threat model"
    )


def check_combination(attack_needs: Iterable[Fact], threat_model: str, attack: str = "this attack") -> None:
    """Refuse an attack that needs a fact which the threat model withholds.

    Raises:
        UserError: names the first such fact.
    """
    for fact in sorted(set(attack_needs) - granted(threat_model)):
        raise refusal(attack, fact, threat_model)


def needs(attack: str, settings: Mapping[str, Any], room: str = ATTACKS) -> frozenset[Fact]:
    """Return the facts that ``attack``, or a transform, needs under ``settings``, read from its source.

    Raises:
        UserError: unknown attack or setting.
    """
    plugins.check(room, attack, settings)
    asked = declared(room, attack)
    facts = frozenset(asked.facts)
    for setting, by_value in asked.facts_when.items():
        facts |= frozenset(by_value.get(chosen(room, attack, settings, setting), ()))
    for setting, more in asked.facts_when_set.items():
        facts |= frozenset(() if is_default(room, attack, settings, setting) else more)
    if asked.generator:
        facts |= {"generator"}
    if asked.fits:
        facts |= {"defense"}
    return facts


def needs_of_prior(prior: GeneratorSpec | None) -> frozenset[Fact]:
    """Return the facts that a generator is: what it was made from, and the images that it keeps.

    Raises:
        UserError: unknown generator or setting.
    """
    if prior is None:
        return frozenset()
    plugins.check(GENERATORS, prior.model.name, prior.model.settings)
    facts: frozenset[Fact] = frozenset({"generator"})
    if prior.steps:
        facts |= {"surrogate_data"}
    if chosen(GENERATORS, prior.model.name, prior.model.settings, "kept"):
        facts |= {"public_images"}
    return facts


def used(attack: AttackSpec) -> frozenset[Fact]:
    """Return all facts that an attack uses: those that it and its transform need, and optional ones that it gets.

    Raises:
        UserError: unknown names or settings.
    """
    capture, transform = attack.capture, attack.transform
    own, other = declared(ATTACKS, attack.attack.name), declared(TRANSFORMS, transform.name)
    facts = needs(attack.attack.name, attack.attack.settings) | needs_of_prior(attack.generator)
    facts |= needs(transform.name, transform.settings, TRANSFORMS)
    facts |= frozenset(other.facts_for_delta if capture.kind == "delta" else ())
    optional = {*own.facts_if_granted, *other.facts_if_granted} & granted(capture.threat_model)
    return facts | (optional if capture.weight_decay else optional - {"weight_decay"})


def check(
    attack: str,
    settings: Mapping[str, Any],
    threat_model: str,
    transform: str = "none",
    transform_settings: Mapping[str, Any] | None = None,
    kind: str = "gradient",
    prior: GeneratorSpec | None = None,
) -> None:
    """Refuse an attack (with its transform) that asks for more than the threat model grants; imports no torch.

    ``kind`` is that of the observation: a delta asks more of an attacker who has to divide it by a rate. ``prior`` is
    the generator that the attack is given.

    Raises:
        UserError: unknown names or settings, or a fact that is withheld.
    """
    of_transform = needs(transform, transform_settings or {}, TRANSFORMS)
    check_combination(needs(attack, settings) | needs_of_prior(prior), threat_model, attack)
    check_kind(kind, threat_model)
    check_combination(of_transform, threat_model, transform)
    if kind == "delta":
        check_combination(
            declared(TRANSFORMS, transform).facts_for_delta, threat_model, f"{attack} with transform {transform}"
        )


def check_kind(kind: str, threat_model: str) -> None:
    """Refuse a gradient under a threat model without the rate: who has one has divided by the rate.

    Raises:
        UserError: says which kind goes with the threat model.
    """
    if kind == "gradient" and "nominal_rate" not in granted(threat_model):
        raise UserError(
            f"threat model '{threat_model}' withholds the rate that makes a gradient of an update: choose kind: delta"
        )


def check_transform(transform: str, defense: str | None, batch_size: int) -> None:
    """Refuse a transform that does not fit the defense or the batch size; imports no torch.

    ``defense`` is None where the threat model withholds it: a transform that is made for some is refused before.

    Raises:
        UserError: says for what the transform was made.
    """
    asked = declared(TRANSFORMS, transform)
    if defense is not None and asked.fits and defense not in asked.fits:
        raise UserError(
            f"transform '{transform}' does not fit defense '{defense}': it is made for {', '.join(sorted(asked.fits))}"
        )
    if defense is not None and defense in asked.unfit:
        raise UserError(f"transform '{transform}' does not fit defense '{defense}': {asked.unfit[defense]}")
    check_most(f"transform '{transform}'", "batch_size", batch_size, asked.largest_batch)


def check_batch(attack: str, batch_size: int, settings: Mapping[str, Any] | None = None) -> None:
    """Refuse an attack on larger batches than it can read; imports no torch.

    Raises:
        UserError: says how large they may be.
    """
    asked = declared(ATTACKS, attack)
    check_most(f"attack '{attack}'", "batch_size", batch_size, asked.largest_batch)
    for setting, values in asked.single_when.items():
        value = chosen(ATTACKS, attack, settings or {}, setting)
        if value in values:
            check_most(f"attack '{attack}' with {setting}: {value}", "batch_size", batch_size, 1)


def check_most(plugin: str, field: str, number: int, most: int | None) -> None:
    """Refuse an update of more samples or steps than a plug-in can read; ``most`` is None for any number.

    Raises:
        UserError: says how many it can.
    """
    if most is not None and number > most:
        raise UserError(f"{plugin} works for {field} <= {most}, not {number}: lower it, or choose another one")


def check_prior(attack: str, prior: GeneratorSpec | None) -> None:
    """Refuse an attack without the generator that it needs or with one that it does not; imports no torch.

    Raises:
        UserError: says what to add or remove.
    """
    needed = declared(ATTACKS, attack).generator
    if needed and prior is None:
        raise UserError(f"attack '{attack}' needs a generator: add e.g. generator: {{dataset: mnist, steps: 1000}}")
    if prior is not None and not needed:
        raise UserError(f"attack '{attack}' uses no generator: remove 'generator'")


def check_generator(spec: AttackSpec) -> None:
    """Refuse what ``check_prior`` refuses, and a generator that has seen the private images; imports no torch.

    Raises:
        UserError: says what to add, remove or change.
    """
    prior, private = spec.generator, spec.capture
    check_prior(spec.attack.name, prior)
    if not (prior and prior.steps and (prior.dataset, prior.split) == (private.dataset, private.images.split)):
        return
    if private.images.partition is not None and _leaves_out(prior, private.images):
        return
    raise UserError(
        f"the generator is trained on the very images that are attacked, the {prior.split} part: set images.split, "
        "or generator.split, to the other one; of clients of an IID deal, generator.model: {name: class-gaussian, "
        "dealt_to: ..., attacked: ...} leaves out what the first ones hold"
    )


def _leaves_out(prior: GeneratorSpec, private: ClientChoice) -> bool:
    """Tell whether a generator is made without the images that these clients of a deal hold."""
    clients, attacked = (int(prior.model.settings.get(key) or 0) for key in ("dealt_to", "attacked"))
    if not attacked:
        return False
    # the default of the deal's clients too
    dealt = chosen("data/partitions", private.partition.name, private.partition.settings, "clients")
    same = private.partition == PartitionChoice(name="iid", settings=private.partition.settings)
    return same and dealt == clients and max(private.clients) < attacked


# Which attacks on text a threat model and a capture allow, checked before any job runs; imports no torch.


def used_by_text(attack: TextAttackSpec) -> frozenset[Fact]:
    """Return all facts that an attack uses.

    Raises:
        UserError: unknown names or settings.
    """
    name = attack.attack.name
    facts = needs(name, attack.attack.settings, TEXT_ATTACKS) | frozenset(KNOWN_LABELS.get(attack.labels, ()))
    return facts | frozenset(declared(TEXT_ATTACKS, name).facts_for_delta if attack.capture.kind == "delta" else ())


def check_text(attack: TextAttackSpec) -> None:
    """Refuse an attack that asks for more than its capture gives.

    Raises:
        UserError: a fact that is withheld, more local steps or sentences than the attack reads, an optimizer or a model
            that it cannot, frozen tables that it needs, or a capture without sentences.
    """
    capture, name = attack.capture, attack.attack.name
    asked = declared(TEXT_ATTACKS, name)
    check_kind(capture.kind, capture.threat_model)
    check_combination(used_by_text(attack), capture.threat_model, name)
    check_most(f"attack '{name}'", "local_steps", capture.local_steps, asked.most_steps)
    check_most(f"attack '{name}'", "batch_size", capture.batch_size, asked.largest_batch)
    check_most(f"attack '{name}'", "clients", capture.clients, asked.largest_batch)
    check_optimizer(name, capture.optimizer.name, TEXT_ATTACKS)
    if text_model_traits(capture.model.name).decoder and not asked.decoders:
        raise UserError(
            f"attack '{name}' searches what an encoder's tables give away, and model '{capture.model.name}' is a "
            "decoder: set model: bert-classifier, or attack: span-reading"
        )
    if capture.frozen == "embeddings" and not asked.frozen_embeddings:
        raise UserError(
            f"attack '{name}' needs the gradients of the tables of words and places, which frozen: embeddings keeps "
            "back: leave frozen out, or choose attack: span-reading"
        )
    if capture.sentences.count == 0:
        raise UserError("no sentences to capture: set sentences.printed or sentences.others")
