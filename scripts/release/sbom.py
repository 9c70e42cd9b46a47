#!/usr/bin/env python3
"""Prints what the program is made of, as CycloneDX: every crate of Cargo.lock with its version and checksum.

Nothing else is linked: llama.cpp comes inside the crate llama-cpp-sys-2, and ONNX Runtime is loaded where the
user has it. The time is the commit's, so that the same sources give the same text.

usage: sbom.py [CARGO.LOCK] >tandem-VERSION.cdx.json
"""

import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def component(package):
    name, version, source = package["name"], package["version"], package.get("source")
    if source not in (None, REGISTRY):
        sys.exit(f"{name} {version} comes from {source}, and only crates.io is expected")
    purl = f"pkg:cargo/{name}@{version}"
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if source == REGISTRY:
        if "checksum" not in package:
            sys.exit(f"{name} {version} has no checksum in Cargo.lock")
        entry["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    return entry


def reference(name, packages):
    """A dependency as Cargo.lock writes it: a name, and a version where there are several."""
    name, _, version = name.partition(" ")
    found = [p["version"] for p in packages if p["name"] == name and version in ("", p["version"])]
    if len(found) != 1:
        sys.exit(f"{name} {version} is a dependency, and Cargo.lock has {len(found)} packages of that name")
    return f"pkg:cargo/{name}@{found[0]}"


def main(lock=ROOT / "Cargo.lock"):
    packages = tomllib.loads(Path(lock).read_text())["package"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    git = ["git", "-C", ROOT, "log", "-1", "--format=%cI"]
    time = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    components = [component(package) for package in packages]
    dependencies = [
        {"ref": f"pkg:cargo/{p['name']}@{p['version']}",
         "dependsOn": sorted(reference(d, packages) for d in p.get("dependencies", []))}
        for p in packages
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {"type": "application", "bom-ref": "tandem", "name": "tandem",
                          "version": workspace["version"],
                          "licenses": [{"license": {"id": workspace["license"]}}]},
        },
        "components": components,
        "dependencies": dependencies,
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
