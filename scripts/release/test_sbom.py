"""Tries scripts/release/sbom.py: what it writes is CycloneDX by that format's own schema, and names every crate that
the program links; a crate that is missing is noticed, by it and by this.

usage: test_sbom.py   (from the root; `cyclonedx-python-lib` has the schema)
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

SBOM = Path("scripts/release/sbom.py")
SYSTEMS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"]


def written(lock):
    return subprocess.run([sys.executable, SBOM, lock], capture_output=True, text=True)


def linked():
    """What cargo says that the program is linked from: names with versions."""
    command = ["cargo", "tree", "--locked", "--package", "tandem-cli", "--edges", "normal,no-proc-macro"]
    command += ["--prefix", "none", "--format", "{p}", *(f"--target={system}" for system in SYSTEMS)]
    tree = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^([\w-]+) v(\S+)", tree, re.M))


def missing(crates, bom):
    named = {(c["name"], c["version"]) for c in bom["components"]}
    return sorted(crates - named)


def a_whole_list_is_valid_and_complete():
    made = written("Cargo.lock")
    assert made.returncode == 0, made.stderr
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(made.stdout)
    assert wrong is None, wrong
    bom, crates = json.loads(made.stdout), linked()
    assert len(crates) > 200, crates
    assert missing(crates, bom) == []
    # Both of these tell when something is not as it should be.
    assert missing(crates | {("made-up", "1.0.0")}, bom) == [("made-up", "1.0.0")]
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps({**bom, "components": [{}]})) is not None
    # Each of another's has the checksum by which cargo fetched it.
    ours = {c["name"] for c in bom["components"] if "hashes" not in c}
    assert all(name == "tandem" or name.startswith("tandem-") for name in ours), ours


def a_missing_crate_is_named():
    lock = Path("Cargo.lock").read_text()
    packages = lock.split("[[package]]\n")
    kept = [p for p in packages if not p.startswith('name = "safetensors"\n')]
    assert len(kept) == len(packages) - 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Cargo.lock"
        path.write_text("[[package]]\n".join(kept))
        made = written(path)
    assert made.returncode != 0 and "safetensors" in made.stderr, (made.returncode, made.stderr)


def main():
    tests = [a_whole_list_is_valid_and_complete, a_missing_crate_is_named]
    failed = 0
    for test in tests:
        try:
            test()
        except AssertionError as error:
            failed += 1
            print(f"FAIL  {test.__name__}: {error}")
        else:
            print(f"ok    {test.__name__}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
