"""What is refused while planning: runs that could never be, or that no table could show; in one line, without torch.

What a spec can tell by itself it refuses itself. Here is what takes the declarations of plug-ins, or the item.
"""

from functools import singledispatch
from pathlib import Path
from typing import Any

from leaklab.items.expand import LABELS, PlannedRun
from leaklab.items.items import Item, item_file
from leaklab.observations.client_requirements import check_client, check_clients, check_server, samples_seen
from leaklab.observations.declared import declared
from leaklab.observations.requirements import check as check_threat_model
from leaklab.observations.requirements import check_batch, check_generator, check_text, check_transform
from leaklab.planning.choices import checked
from leaklab.records import plugins
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.text_numbers import refuse_text_numbers
from leaklab.records.traits import chosen, defense_traits, metric_traits, model_traits
from leaklab.specs.attack import ATTACKS, TRANSFORMS, AttackSpec, LandscapeSpec, ScoreSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.text import TextScoreSpec
from leaklab.specs.training import TrainSpec

METRICS, DEFENSES, MODELS = "metrics", "defenses", "models"
NOWHERE = object()
PAPER_SCALE: Scale = "paper"
"""Beside what an item is at this scale its tables tell what stands in for what."""
NAMED = frozenset({LABELS})


def check_item(item: Item, file: Path | None = None) -> None:
    """Refuse an item whose numbers are text, or that runs and does not say what it is at scale ``paper``.

    Args:
        item: of which no run is looked at.
        file: where it stands, if not where items stand.

    Raises:
        UserError: with what to write, or to add.
    """
    file = file or item_file(item)
    changes = {scale: {"set": change.set, "blocks": change.blocks} for scale, change in item.scales.items()}
    refuse_text_numbers({"runs": item.runs, "figure": item.figure, "scales": changes}, file, NAMED)
    if item.made and PAPER_SCALE not in item.scales:
        raise UserError(
            f"{file}: scales: '{PAPER_SCALE}' is missing, beside which tables tell what stands in for what: "
            f"add {PAPER_SCALE}: {{}}, or {PAPER_SCALE}: {{apart: true}}, or {PAPER_SCALE}: {{planned: why}}"
        )


def check_run(item: Item, run: PlannedRun) -> None:
    """Refuse a run that an item asks for and that could not be done, or shown.

    Raises:
        UserError: says what to change.
    """
    check_row_keys(item, run)
    if run.spec is not None:
        _check(run.spec, item)


@singledispatch
def _check(spec: Spec, item: Item) -> None:
    """Refuse what a run of some stage cannot be; nothing of one that is not named here."""


@_check.register
def _check_training(spec: TrainSpec, item: Item) -> None:
    check_least_batch(spec)
    check_asked_budget(spec)


@_check.register
def _check_score(spec: ScoreSpec, item: Item) -> None:
    check_headline(item, spec)
    checked(spec.attack, check_attack)


@_check.register
def _check_landscape(spec: LandscapeSpec, item: Item) -> None:
    checked(spec.attack, check_attack)
    for name in spec.metrics:
        if _compares_no_images(name):
            raise UserError(f"metric '{name}' compares no images: name it in a block of attacks")


@_check.register
def _check_sentences(spec: TextScoreSpec, item: Item) -> None:
    checked(spec.attack, check_text)


def _compares_no_images(metric: str) -> bool:
    said = metric_traits(metric)
    return said.reads_the_update or said.reads_the_search


def check_attack(attack: AttackSpec) -> None:
    """Refuse an attack that could not be made, or would come to nothing.

    Raises:
        UserError: says what to change.
    """
    check_least_batch(attack.capture)
    check_asked_budget(attack.capture)
    check_threat_model(
        attack.attack.name,
        attack.attack.settings,
        attack.capture.threat_model,
        attack.transform.name,
        attack.transform.settings,
        attack.capture.kind,
        attack.generator,
    )
    check_server(attack.capture)
    seen = samples_seen(attack.capture)
    check_batch(attack.attack.name, seen, attack.attack.settings)
    check_client(attack.attack.name, attack.capture)
    check_first_layer(attack)
    check_transform(attack.transform.name, attack.capture.defense.name, seen)
    check_generator(attack)
    check_law(attack)
    check_batches(attack)


def check_law(attack: AttackSpec) -> None:
    """Refuse a transform without the law that it takes, and a law that nobody takes.

    Raises:
        UserError: says what to add or to leave out.
    """
    name, wanted = attack.transform.name, declared(TRANSFORMS, attack.transform.name).law
    learnt, gate = (attack.law.images, attack.law.gate) if attack.law else (0, 0)
    if wanted and not learnt:
        raise UserError(f"transform '{name}' takes a law of the defense: add law: {{images: 24}} and a generator")
    if learnt and not wanted:
        raise UserError(
            f"transform '{name}' takes no law: leave law out, set law.images: 0, or choose transform learnt"
        )
    if gate and not attack.attack.settings.get("splits"):
        raise UserError(
            f"law.gate: attack '{attack.attack.name}' has nothing to choose: set attack.splits, or leave it out"
        )


def check_row_keys(item: Item, run: PlannedRun) -> None:
    """Refuse a path of ``cells.row`` that leads nowhere in a run, or to a list, which no line of a table can be of.

    Raises:
        UserError: names the path, and what to write.
    """
    paths = (
        [source if isinstance(source, str) else source.source for source in item.cells.row.values()]
        if item.cells
        else []
    )
    known = {**run.choice, **(run.spec.own_keys if run.spec else {})}
    found = {path: _value(known, path.split(".")) for path in paths}
    lost = [path for path, value in found.items() if value is NOWHERE]
    if lost:
        raise UserError(
            f"cells.row: '{lost[0]}' does not point into the runs of this block: give it that field, e.g. "
            f"{_example(lost[0])}"
        )
    whole = [path for path, value in found.items() if isinstance(value, list | tuple | dict)]
    if whole:
        raise UserError(
            f"cells.row: '{whole[0]}' is {found[whole[0]]} in the runs of this block, and not one value of it: fields "
            "that are lists elsewhere (clients, rates, seeds) are never run one by one, so give it another name"
        )


def _value(place: Any, parts: list[str]) -> Any:
    if not parts:
        return place
    if isinstance(place, list | tuple):
        inside = parts[0].isdigit() and int(parts[0]) < len(place)
        return _value(place[int(parts[0])], parts[1:]) if inside else NOWHERE
    return _value(place[parts[0]], parts[1:]) if isinstance(place, dict) and parts[0] in place else NOWHERE


def _example(path: str) -> str:
    first, *rest = path.split(".")
    return f"{first}: {{{rest[0]}: ...}}" if rest else f"{first}: ..."


def check_headline(item: Item, spec: ScoreSpec) -> None:
    """Refuse a headline that no guess without an update can be held against: it tells what the update adds to one.

    Raises:
        UserError: names the metric, and what to write.
    """
    for metric in spec.metrics:
        if metric.replace("-", "_") != item.headline:
            continue
        plugins.check(METRICS, metric, {})
        if _compares_no_images(metric):
            raise UserError(
                f"headline: '{item.headline}' compares no images, so no guess can be held against it: name a metric of "
                "images, such as psnr, or leave the headline out"
            )


def check_least_batch(spec: TrainSpec | CaptureSpec) -> None:
    """Refuse a batch with fewer samples than the setting says that the defense's ``least_batch`` names.

    Raises:
        UserError: with the setting and both numbers.
    """
    setting = defense_traits(spec.defense.name).least_batch
    needed = chosen(DEFENSES, spec.defense.name, spec.defense.settings, setting) if setting else 0
    if spec.batch_size < needed:
        raise UserError(
            f"defense '{spec.defense.name}' looks at {needed} samples of a batch, which has "
            f"{spec.batch_size}: raise batch_size or lower {setting}"
        )


def check_asked_budget(spec: TrainSpec | CaptureSpec) -> None:
    """Refuse a budget without noise, where a defense has settings for both.

    Raises:
        UserError: the first one is given, and the second one is 0.
    """
    settings = defense_traits(spec.defense.name).budget
    if not settings:
        return
    budget, noise = settings
    if spec.defense.settings.get(budget) is not None and spec.defense.settings.get(noise) == 0:
        raise UserError(
            f"defense '{spec.defense.name}': {noise} 0 adds no noise, so no {budget} can be kept: raise {noise} or "
            f"leave {budget} out"
        )


def check_first_layer(spec: AttackSpec) -> None:
    """Refuse an attack on a first affine layer where there is none, or more samples than can be told apart in it.

    Raises:
        UserError: says what to choose or to lower.
    """
    attack, model = spec.attack, spec.capture.model
    asked = declared(ATTACKS, attack.name)
    if not asked.first_affine:
        return
    setting = model_traits(model.name).first_affine
    if setting is None:
        able = [name for name in plugins.available(MODELS) if model_traits(name).first_affine is not None]
        raise UserError(
            f"attack '{attack.name}' reads a first layer that is affine with a bias, which model '{model.name}' does "
            f"not begin with: choose one of {', '.join(able)}, or another attack"
        )
    units = chosen(MODELS, model.name, model.settings, setting) if setting else None
    samples = chosen(ATTACKS, attack.name, attack.settings, "samples") or spec.capture.batch_size
    if asked.tells_apart and isinstance(units, int) and samples > units:
        raise UserError(
            f"attack '{attack.name}' cannot tell {samples} samples apart in a first layer of {units} units: lower "
            f"batch_size, or raise model.{setting}"
        )


def check_batches(spec: AttackSpec) -> None:
    """Refuse clients of a deal that the attack cannot take apart, and a number of samples that is not theirs.

    Raises:
        UserError: says what to change.
    """
    capture, name = spec.capture, spec.attack.name
    if not declared(ATTACKS, name).several_batches:
        check_clients(capture)
        return
    check_clients(capture.model_copy(update={"local_steps": 1}))
    steps = capture.local_steps if capture.images.partition else 1
    held = capture.batch_size * steps
    told = chosen(ATTACKS, name, spec.attack.settings, "samples") or capture.batch_size
    if told != held:
        raise UserError(
            f"attack '{name}': samples: the client has {held} samples in this round, not {told}: set "
            f"attack.samples: {held}"
        )
