"""Signatures: what was signed holds, and every other crate, key or file is named in one line."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from leaklab.provenance import full_audit, signing
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json

TABLE = Path("results/small/lrp/table1.csv")
KEY, PUBLIC = Path("key.pem"), Path("key.pub")


def write_key(private=KEY, public=PUBLIC, made=None, password=None):
    made = made or Ed25519PrivateKey.generate()
    hidden = BestAvailableEncryption(password) if password else NoEncryption()
    private.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
    public.write_bytes(made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@pytest.fixture(autouse=True)
def crate(tmp_path, monkeypatch):
    """A crate that describes a table that is here and a run that is not, and a pair of keys."""
    monkeypatch.chdir(tmp_path)
    TABLE.parent.mkdir(parents=True)
    TABLE.write_text("a table")
    files = {TABLE.as_posix(): sha256(TABLE), "results/runs/train/aa/sweep.parquet": "0" * 64}
    path = signing.crate_of("small")
    write_json(path, {"@graph": [{"@id": "./"}, *({"@id": name, "sha256": value} for name, value in files.items())]})
    write_key()
    return path


def faults():
    (found,) = signing.check(PUBLIC)
    return found.faults


def test_what_was_signed_is_valid():
    assert signing.sign("small", KEY) == 1
    (found,) = signing.check(PUBLIC)
    assert found == signing.Checked(signing.signature_of("small"), (), files=1)
    assert signing.signatures() == [signing.signature_of("small")]


def test_a_file_that_came_later_is_named():
    signing.sign("small", KEY)
    later = TABLE.with_name("table2.csv")
    later.write_text("slipped in")
    (fault,) = faults()
    assert fault.startswith(f"{later}: lies among signed results")


def test_a_scale_without_a_signature_is_known():
    Path("results/demo").mkdir()
    assert signing.unsigned_scales() == ["demo", "small"]
    signing.sign("small", KEY)
    assert signing.unsigned_scales() == ["demo"]


def test_an_altered_crate_is_named(crate):
    signing.sign("small", KEY)
    crate.write_text(crate.read_text().replace("0" * 64, "1" * 64))
    assert faults() == (f"{crate}.sig: not made with the private key of key.pub over {crate} as it is here",)


def test_an_altered_file_is_named_though_crate_and_signature_are_whole(crate):
    signing.sign("small", KEY)
    TABLE.write_text("another table")
    assert faults() == (f"{TABLE}: not the file that {crate} describes",)


@pytest.mark.parametrize("content", [b"", b"x" * 64, b"x" * 65])
def test_a_damaged_signature_is_named(content):
    signing.signature_of("small").write_bytes(content)
    assert "not made with the private key" in faults()[0]


def test_another_key_is_named():
    signing.sign("small", KEY)
    write_key()
    assert "not made with the private key" in faults()[0]


def test_a_lost_crate_is_named(crate):
    signing.sign("small", KEY)
    crate.unlink()
    assert faults() == (f"{crate}.sig: {crate}, which it signs, is missing",)


def test_nothing_is_signed_that_is_not_as_described():
    TABLE.write_text("another table")
    with pytest.raises(UserError, match=rf"^not signed: {TABLE}: .* run `leaklab audit`"):
        signing.sign("small", KEY)
    assert not signing.signatures()


@pytest.mark.parametrize("graph", [5, [{"sha256": "x"}], [{"@id": "../x", "sha256": "x"}], [5]])
def test_what_is_no_crate_is_not_signed(crate, graph):
    write_json(crate, {"@graph": graph})
    with pytest.raises(UserError, match=r"ro-crate-metadata\.json"):
        signing.sign("small", KEY)


def test_a_scale_without_a_crate_says_how_to_make_one():
    with pytest.raises(UserError, match=r"results/paper/.* is missing: make it with `snakemake --cores 2"):
        signing.sign("paper", KEY)


class TestKeys:
    def refused(self, work):
        with pytest.raises(UserError) as caught:
            work()
        return str(caught.value)

    def both(self):
        return self.refused(lambda: signing.sign("small", KEY)), self.refused(lambda: signing.check(PUBLIC))

    def test_missing(self):
        KEY.unlink()
        PUBLIC.unlink()
        assert self.both() == (f"key.pem is missing: {signing.MAKE_KEY}", f"key.pub is missing: {signing.TAKE_PUBLIC}")

    def test_a_folder(self):
        for path in (KEY, PUBLIC):
            path.unlink()
            path.mkdir()
        assert all("cannot be read (Is a directory)" in line for line in self.both())

    def test_of_another_kind(self):
        write_key(made=generate_private_key(SECP256R1()))
        assert all("is no Ed25519 key" in line for line in self.both())

    def test_damaged(self):
        KEY.write_text("x")
        PUBLIC.write_bytes(b"\xff")
        assert [line.split(":")[0] for line in self.both()] == [
            "key.pem is no private key in PEM", "key.pub is no public key in PEM"
        ]  # fmt: skip

    def test_taken_for_each_other(self):
        shutil.copy(KEY, "both")
        KEY.write_bytes(PUBLIC.read_bytes())
        shutil.copy("both", PUBLIC)
        assert ["is no private key" in self.both()[0], "is no public key" in self.both()[1]] == [True, True]

    def test_with_a_password(self):
        write_key(password=b"secret")
        assert "has a password" in self.refused(lambda: signing.sign("small", KEY))

    def test_nothing_signed(self):
        assert self.refused(lambda: signing.check(PUBLIC)).startswith("nothing here is signed")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_makes_the_keys_and_checks_the_signature(crate):
    """The commands of docs/security.md."""

    def openssl(*words):
        return subprocess.run(["openssl", *words], check=False, capture_output=True).returncode

    assert openssl("genpkey", "-algorithm", "ed25519", "-out", "key.pem") == 0
    assert openssl("pkey", "-in", "key.pem", "-pubout", "-out", "key.pub") == 0
    signing.sign("small", KEY)
    assert not faults()
    words = (
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "key.pub",
        "-rawin",
        "-in",
        str(crate),
        "-sigfile",
        f"{crate}.sig",
    )
    assert openssl(*words) == 0
    TABLE.write_text("x")
    crate.write_text(crate.read_text() + " ")
    assert openssl(*words) != 0


class TestAudit:
    """Of a project with one sound record, made by the code here."""

    @pytest.fixture(autouse=True)
    def sound(self, crate, monkeypatch):
        from leaklab.planning.code import code_of_result
        from leaklab.planning.plan import Plan
        from leaklab.records.recorder import Recorder

        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(Path.cwd().parent))
        monkeypatch.setattr(full_audit, "load_items", dict)
        monkeypatch.setattr(full_audit, "set_up", Plan)
        recorder = Recorder("make_table", code_of_result("make_table").digest)
        record = TABLE.with_suffix(".run.json")
        recorder.finish(record, {}, {}, {"csv": TABLE})
        write_json(crate, {"@graph": [{"@id": str(path), "sha256": sha256(path)} for path in (TABLE, record)]})

    def test_a_signature_is_named_where_no_key_is_given(self):
        assert list(full_audit.full_audit())[-1].startswith("audit passed: 1 records")
        signing.sign("small", KEY)
        assert any("not checked: name the public key with --signed-by" in line for line in full_audit.full_audit())

    def test_a_valid_one_passes(self):
        signing.sign("small", KEY)
        lines = list(full_audit.full_audit(key=PUBLIC))
        assert f"{signing.signature_of('small')}: valid, 2 signed files are here" in lines
        assert lines[-1].startswith("audit passed")

    def test_who_changes_a_file_and_its_record_does_not_pass(self):
        """What the signature is for: the records alone agree."""
        signing.sign("small", KEY)
        record = TABLE.with_suffix(".run.json")
        old = sha256(TABLE)
        TABLE.write_text("forged")
        record.write_text(record.read_text().replace(old, sha256(TABLE)))
        assert list(full_audit.full_audit())[-1].startswith("audit passed")
        with pytest.raises(UserError, match=r"audit failed: 2 faults of signatures, 0 changed files"):
            list(full_audit.full_audit(key=PUBLIC))

    def test_a_wrong_key_fails(self):
        signing.sign("small", KEY)
        write_key()
        with pytest.raises(UserError, match=r"audit failed: 1 faults of signatures"):
            list(full_audit.full_audit(key=PUBLIC))
