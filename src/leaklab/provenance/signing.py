"""Signatures of a scale's crate with an Ed25519 key of the user's: what hashes without a key cannot show.

The crate (``provenance/crate.py``) states the SHA-256 of every file behind a scale's report, so its bytes stand for
all of them. The signature is the 64 bytes that ``openssl pkeyutl`` writes and checks.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.files import atomic, sha256
from leaklab.records.walk import files_below

LARGEST_KEY = 65536
"""Bytes; what is larger is no key."""
MAKE_KEY = "make one with `openssl genpkey -algorithm ed25519 -out key.pem`"
TAKE_PUBLIC = "take it from the private one with `openssl pkey -in key.pem -pubout -out key.pub`"


@dataclass(frozen=True)
class Checked:
    """A signature and what came of checking it.

    Attributes:
        signature: the file.
        faults: a line for each thing that is wrong; empty where the signature holds.
        files: described files that are here, each with the checksum that was signed, or named in ``faults``.
    """

    signature: Path
    faults: tuple[str, ...]
    files: int = 0


def crate_of(scale: Scale) -> Path:
    """Return where the workflow leaves the crate of a scale."""
    return Path("results", scale, "provenance/ro-crate-metadata.json")


def signature_of(scale: Scale) -> Path:
    """Return where the signature of a scale's crate lies."""
    return Path(f"{crate_of(scale)}.sig")


def signatures() -> list[Path]:
    """Return the signatures that are here."""
    return [signature_of(scale) for scale in SCALES if signature_of(scale).is_file()]


def unsigned_scales() -> list[Scale]:
    """Return the scales that have results here and no signature."""
    return [scale for scale in SCALES if Path("results", scale).is_dir() and not signature_of(scale).is_file()]


def sign(scale: Scale, key: Path) -> int:
    """Sign a scale's crate; returns how many of the files that it describes were compared with it.

    Args:
        scale: whose crate.
        key: file of an Ed25519 private key in PEM, without a password.

    Raises:
        UserError: the key or the crate is missing or of another kind, or a file here is not the one it describes.
    """
    private = _private_key(key)
    crate = crate_of(scale)
    if not crate.is_file():
        raise UserError(f"{crate} is missing: make it with `snakemake --cores 2 {crate}`, then sign it")
    content = crate.read_bytes()
    described = _described(content, crate)
    differing = list(_differing(described, crate))
    if differing:
        raise UserError(f"not signed: {differing[0]} ({len(differing)} in all): run `leaklab audit`")
    with atomic(signature_of(scale)) as temporary:
        temporary.write_bytes(private.sign(content))
    return _here(described)


def check(key: Path) -> list[Checked]:
    """Check all signatures of this checkout against one public key.

    Raises:
        UserError: the key is missing or of another kind, or nothing here is signed.
    """
    public = _public_key(key)
    found = [_check(scale, public, key) for scale in SCALES if signature_of(scale).is_file()]
    if not found:
        raise UserError("nothing here is signed: ask for a crate and its .sig, or run `leaklab sign --key FILE`")
    return found


def _check(scale: Scale, public: Ed25519PublicKey, key: Path) -> Checked:
    crate, signature = crate_of(scale), signature_of(scale)
    if not crate.is_file():
        return Checked(signature, (f"{signature}: {crate}, which it signs, is missing",))
    content = crate.read_bytes()
    try:
        public.verify(signature.read_bytes(), content)
    except InvalidSignature:
        wrong = f"{signature}: not made with the private key of {key} over {crate} as it is here"
        return Checked(signature, (wrong,))
    described = _described(content, crate)
    faults = (*_differing(described, crate), *_strangers(scale, described))
    return Checked(signature, faults, _here(described))


def _private_key(file: Path) -> Ed25519PrivateKey:
    content = _read(file, MAKE_KEY)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise UserError(f"{file} has a password: sign with a copy without one, or {MAKE_KEY}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(f"{file} is no private key in PEM: {MAKE_KEY}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{file} is no Ed25519 key: {MAKE_KEY}")
    return key


def _public_key(file: Path) -> Ed25519PublicKey:
    content = _read(file, TAKE_PUBLIC)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(f"{file} is no public key in PEM: {TAKE_PUBLIC}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError(f"{file} is no Ed25519 key: {TAKE_PUBLIC}")
    return key


def _read(file: Path, advice: str) -> bytes:
    try:
        with file.open("rb") as handle:  # it may be a pipe, or a device without an end
            return handle.read(LARGEST_KEY)
    except FileNotFoundError:
        raise UserError(f"{file} is missing: {advice}") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}): {advice}") from None


def _described(content: bytes, crate: Path) -> dict[str, str]:
    """Return path -> SHA-256 of the files that a crate describes."""
    try:
        graph = json.loads(content)["@graph"]
        return {str(entity["@id"]): str(entity["sha256"]) for entity in graph if "sha256" in entity}
    except (KeyError, TypeError, ValueError, RecursionError):
        raise UserError(f"{crate} is no crate: delete it and its signature, and run snakemake again") from None


def _differing(described: Mapping[str, str], crate: Path) -> Iterator[str]:
    for name, value in described.items():
        path = PurePath(name)
        if path.is_absolute() or ".." in path.parts:
            yield f"{crate} describes {name!r}, a file outside the project"
        elif not _absent_or_is(Path(path), value):
            yield f"{name}: not the file that {crate} describes"


def _strangers(scale: Scale, described: Mapping[str, str]) -> Iterator[str]:
    """Name what lies among a signed scale's results and was not there when they were signed."""
    crate = crate_of(scale)
    report_record = Path("results", scale, "report/run.json")  # it has the checksums of what the crate is made from
    for folder in (Path("results", scale), Path("figures", scale)):
        for path in files_below(folder):
            own = path.is_relative_to(crate.parent) or path == report_record
            if not own and path.as_posix() not in described:
                yield f"{path}: lies among signed results, and {crate} does not describe it"


def _absent_or_is(path: Path, value: str) -> bool:
    try:
        return not path.is_file() or sha256(path) == value
    except OSError:  # no file has so long a name, or it may not be read
        return False


def _here(described: Mapping[str, str]) -> int:
    return sum(Path(name).is_file() for name in described)
