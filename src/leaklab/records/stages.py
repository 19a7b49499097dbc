"""All kinds of runs. A new stage is one class here, with the step and the rule that it names."""

from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.partition_spec import PartitionSpec
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TextAttackSpec, TextCaptureSpec, TextScoreSpec
from leaklab.records.train_spec import TrainSpec

SPECS: tuple[type[Spec], ...] = (
    CheckSpec,
    PartitionSpec,
    TrainSpec,
    GeneratorSpec,
    CaptureSpec,
    AttackSpec,
    ScoreSpec,
    ProjectionSpec,
    LandscapeSpec,
    TextCaptureSpec,
    TextAttackSpec,
    TextScoreSpec,
)
STAGES = {kind.stage: kind for kind in SPECS}
RULES = {kind.rule: kind for kind in SPECS}
BLOCKS = {kind.block: kind for kind in SPECS if kind.block}
"""By what a block of an item says under ``stage``."""
