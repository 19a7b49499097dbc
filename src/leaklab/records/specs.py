"""Typed, frozen specs: what a run is. Their canonical JSON is the run's identity (see ``ids``).

A spec holds everything that decides a result and nothing else: no paths, no devices, no chunk sizes. A new field of one
reruns that stage and those behind it only.
"""

from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.capture_spec import CaptureSpec, TextCaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.partition_spec import PartitionSpec
from leaklab.records.record import Record
from leaklab.records.text_specs import TEXT_FOLDER, TextAttackSpec, TextScoreSpec
from leaklab.records.train_spec import TrainSpec

TextSpec = TextCaptureSpec | TextAttackSpec | TextScoreSpec
ImageSpec = GeneratorSpec | CaptureSpec | AttackSpec | ScoreSpec | ProjectionSpec | LandscapeSpec
Spec = CheckSpec | PartitionSpec | TrainSpec | ImageSpec | TextSpec


def datasets_of(spec: Record) -> frozenset[str]:
    """Return every data set that a spec names, itself or through what it rests on; sentences below ``text/``."""
    own = getattr(spec, "dataset", None)
    names = {f"{TEXT_FOLDER if isinstance(spec, TextCaptureSpec) else ''}{own}"} if own else set()
    parts = (getattr(spec, name) for name in type(spec).model_fields)
    return frozenset(names).union(*(datasets_of(part) for part in parts if isinstance(part, Record)))
