"""Templates as they were compiled, kept between processes: compiling them is a tenth of the time of a report."""

from contextlib import suppress
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

from leaklab.records.kept_json import KEPT

FOLDER = KEPT / "templates"


class KeptTemplates(FileSystemBytecodeCache):
    """Compiled templates by name, source and versions; where nothing can be kept, they are compiled each time."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Name the folder, which is made when something is kept."""
        super().__init__(str(folder))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read what is kept; what is damaged counts as nothing."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template."""
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
