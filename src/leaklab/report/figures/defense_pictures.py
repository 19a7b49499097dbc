"""From the runs of an item to the pictures of its grid of defenses, each with the scores of its result table."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from leaklab.items.expand import PlannedRun, expand
from leaklab.items.items import Item
from leaklab.items.layouts import PicturesLayout
from leaklab.metrics.guesses import finite, match, private_indices, reorder
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors
from leaklab.report.collect.source import row_of
from leaklab.report.figures.defense_grid import ORIGINAL, DefenseGridLayout, Shot
from leaklab.report.judge.attackers import knowing_runs
from leaklab.report.numbers.results import KNOWING, ResultTable, identity, matches
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.base import run_folder, run_id

IMAGE, DRAW, UPDATE = "image", "draw", "update"
Keys = Mapping[str, Any]


@dataclass(frozen=True)
class _Found:
    """One private image with what an attacker made of it."""

    keys: Keys
    dataset: str
    split: str
    attacker: str
    run: str
    kind: str
    original: Tensor
    guess: Tensor

    @property
    def of_data_set(self) -> tuple[str, str, int]:
        """Which image of which part of which data set; all of them have images of the same number."""
        return self.dataset, self.split, self.keys[IMAGE]


def gather(item: Item, scale: Scale, results: ResultTable) -> tuple[list[Shot], DefenseGridLayout]:
    """Return the pictures of an item and what stands where.

    Args:
        item: with a section ``pictures``.
        scale: of the runs.
        results: the item's result table, which has the scores and knows the strongest of the attacks.

    Raises:
        UserError: the section is missing, or a row or column is none of the runs' keys.
    """
    if item.pictures is None:
        raise UserError(f"config/items/{item.key}.yaml: renderer defense-grid needs a section 'pictures'")
    layout = item.pictures
    numbers: dict[str, list[Keys]] = {}
    found = [one for run in expand(item, scale) for one in _of_run(item, run, results, numbers)]
    shown = _first_of_each_data_set(found, layout.count)
    found = [one for one in found if one.of_data_set in shown]
    if DRAW not in (*layout.rows, *layout.columns):
        found = [one for one in found if one.keys[DRAW] == 0]
    rows = _row_labels(item, layout, found)
    sections = _labels(item, layout, layout.sections, found) if layout.sections else {}
    columns = _labels(item, layout, layout.columns, found)
    originals = _labels(item, layout, layout.originals, found)
    original_of = {_name(layout.columns, one.keys): _name(layout.originals, one.keys) for one in found}
    section_of = {_name(_places(layout), one.keys): _name(layout.sections, one.keys) for one in found}
    shots: dict[tuple[str, str, str], Shot] = {}
    for one in found:
        row, column = (_name(keys, one.keys) for keys in (_places(layout), layout.columns))
        own = _original(original_of[column])
        shots.setdefault((row, own, ""), Shot(row, own, "", one.original))
        scores = _scores(results, layout, one)
        shots.setdefault((row, column, one.attacker), Shot(row, column, one.attacker, one.guess, scores))
    return list(shots.values()), DefenseGridLayout(
        columns=_with_originals(columns, original_of, originals),
        scores=layout.scores,
        formats=layout.formats,
        rows=rows,
        sections={row: sections.get(section_of[row], "") for row in rows},
        attackers=layout.attackers,
        arrangement=layout.arrangement,
        note=layout.note,
        width=layout.width,
    )


def _original(of: str) -> str:
    """Return the key of the column of originals that some columns share."""
    return ", ".join(filter(None, (ORIGINAL, of)))


def _with_originals(
    columns: Mapping[str, str], original_of: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, str]:
    """Return the columns with their headings, that of the originals before the first that share them."""
    placed: dict[str, str] = {}
    for column, heading in columns.items():
        of = original_of[column]
        placed.setdefault(_original(of), _original(labels.get(of, "")))
        placed[column] = heading
    return placed


def _of_run(item: Item, run: PlannedRun, results: ResultTable, numbers: dict[str, list[Keys]]) -> Iterator[_Found]:
    """Yield what one run made; ``numbers`` keeps the updates of each cell, which several runs may share."""
    if not isinstance(run.spec, ScoreSpec):
        return
    attack = run.spec.attack
    dataset, split = attack.capture.dataset, attack.capture.images.split
    assert item.pictures is not None
    name = run_id(run.spec)
    shown_as = [run.attacker] if run.attacker != KNOWING else []
    shown_as += [KNOWING] if name in knowing_runs(results, item.headline, *item.pictures.scores) else []
    shown_as = [attacker for attacker in shown_as if attacker in item.pictures.attackers]
    if not shown_as:
        return
    private_side = read_tensors(run_folder(attack.capture) / "truth.safetensors")
    truth, labels = private_side["images"], private_side["labels"]
    trials = read_json(run_folder(attack.capture) / "truth_facts.json")["trials"]
    guesses = finite(read_tensors(run_folder(attack) / "reconstruction.safetensors")["images"])[0]
    paired = reorder(guesses, match(guesses, truth))
    private = private_indices(trials, batch=truth.shape[1])
    row = row_of(item, run)
    updates = numbers.setdefault(identity(row), [])
    for place, trial in enumerate(trials):
        update = {"drawn": attack.capture.images.model_dump(), "images": private[place]}
        if update not in updates:
            updates.append(update)
        for sample, image in enumerate(private[place]):
            keys = {**row, IMAGE: image, DRAW: trial["draw"], UPDATE: updates.index(update) + 1}
            kind = _class(item, dataset, int(labels[place, sample]))
            for attacker in shown_as:
                yield _Found(keys, dataset, split, attacker, name, kind, truth[place, sample], paired[place, sample])


def _first_of_each_data_set(found: list[_Found], count: int) -> set[tuple[str, str, int]]:
    """Return the first ``count`` images of every data set, so that none is crowded out by those before it."""
    images = list(dict.fromkeys(one.of_data_set for one in found))
    datasets = {dataset for dataset, _, _ in images}
    return {image for dataset in datasets for image in [own for own in images if own[0] == dataset][:count]}


def _class(item: Item, dataset: str, label: int) -> str:
    assert item.pictures is not None
    names = item.pictures.classes.get(dataset)
    if names is None:
        return f"class {label}"
    if label >= len(names):
        raise UserError(f"config/items/{item.key}.yaml: pictures: {dataset} has a class {label}, but names for "
                        f"{len(names)}: complete 'classes'")  # fmt: skip
    return names[label]


def _scores(results: ResultTable, layout: PicturesLayout, one: _Found) -> dict[str, float]:
    own = [row for row in results.rows if one.run in row.runs and row.metric in layout.scores and not row.aside]
    keys = {key: value for key, value in one.keys.items() if key != UPDATE}  # a result table numbers no updates
    return {row.metric: row.value for row in own if row.value is not None and matches(row.row, keys)}


def _labels(item: Item, layout: PicturesLayout, keys: tuple[str, ...], found: list[_Found]) -> dict[str, str]:
    """Return name -> label of the rows or columns, in order: by number, by the order of labels, else as they come."""
    unknown = [key for key in keys if found and key not in found[0].keys]
    if unknown:
        known = ", ".join(found[0].keys)
        raise UserError(f"config/items/{item.key}.yaml: pictures: no key '{unknown[0]}': there are {known}")
    seen = {_name(keys, one.keys): one.keys for one in found}
    ranks = [_rank(layout, key, [one[key] for one in seen.values()]) for key in keys]
    ordered = sorted(seen, key=lambda name: tuple(rank(seen[name][key]) for rank, key in zip(ranks, keys, strict=True)))
    others = list(seen.values())
    return {name: _joined(layout, keys, seen[name], others) for name in ordered}


def _joined(layout: PicturesLayout, keys: tuple[str, ...], one: Keys, known: list[Keys]) -> str:
    """Return the labels of the keys that tell one place from the others, the first key's in any case."""
    telling = [key for depth, key in enumerate(keys) if depth == 0 or _several(keys[:depth], one, known)]
    return ", ".join(filter(None, (_label(layout, key, one[key]) for key in telling)))


def _places(layout: PicturesLayout) -> tuple[str, ...]:
    """Return the keys that tell one row from the others: an image may come again in another section."""
    return *layout.sections, *(key for key in layout.rows if key not in layout.sections)


def _row_labels(item: Item, layout: PicturesLayout, found: list[_Found]) -> dict[str, str]:
    """Return the labels of the rows; images are called by their class, with a number where a class comes again."""
    labels = _labels(item, layout, layout.rows, found)
    row_of_place = {_name(_places(layout), one.keys): _name(layout.rows, one.keys) for one in found}
    places = {place: labels[row_of_place[place]] for place in _labels(item, layout, _places(layout), found)}
    if layout.rows != (IMAGE,):
        return places
    kinds = {_name(_places(layout), one.keys): one.kind for one in found}
    often, met = Counter(kinds.values()), Counter[str]()
    for name in places:
        kind = kinds[name]
        met[kind] += 1
        places[name] = f"{kind} ({met[kind]})" if often[kind] > 1 else kind
    return places


def _several(keys: tuple[str, ...], one: Keys, all_of_them: list[Keys]) -> bool:
    """Return whether more than one has these keys' values."""
    return sum(all(other[key] == one[key] for key in keys) for other in all_of_them) > 1


def _rank(layout: PicturesLayout, key: str, values: list[Any]) -> Callable[[Any], float]:
    order = list(layout.labels.get(key, ()))
    if order:
        ranks = {text: rank for rank, text in enumerate(order)}
        # YAML's true is a word among the labels
        return lambda value: ranks.get(str(value).lower() if isinstance(value, bool) else str(value), len(order))
    if key != IMAGE and all(isinstance(value, int | float) for value in values):
        return float
    return list(dict.fromkeys(values)).index


def _label(layout: PicturesLayout, key: str, value: Any) -> str:
    if key in layout.labels:
        return layout.label(key, value)
    return f"{layout.title(key)} {value}" if isinstance(value, int | float) else str(value)


def _name(keys: tuple[str, ...], values: Keys) -> str:
    return ", ".join(f"{key} {values[key]}" for key in keys if key in values)
