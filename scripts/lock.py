"""Writes lists of Python packages with hashes, as `pip install --require-hashes` reads them, from what is
asked for. uv finds the versions; of their wheels those are named that a machine of ours could take.

usage: lock.py UV [NAME.in …]   (Python 3.11 or later, for tomllib)
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

# What is asked for, and the oldest Python that it is for.
LISTS = {
    "scripts/clients/aider.in": "3.10",
    "scripts/clients/llama_index.in": "3.10",
    "scripts/clients/lm_eval.in": "3.10",
    "scripts/clients/lm_eval_sources.in": "3.10",
    "scripts/clients/open_webui.in": "3.11",
    "scripts/clients/requirements.in": "3.10",
    "scripts/engines/llama-server.in": "3.11",
    "scripts/engines/sglang.in": "3.11",
    "scripts/engines/uv.in": "3.9",
    "scripts/engines/vllm.in": "3.11",
    "scripts/node.in": "3.9",
    "scripts/onnx/builder.in": "3.11",
    "scripts/onnx/tools.in": "3.11",
    "scripts/python/requirements.in": "3.11",
    "scripts/release/requirements.in": "3.11",
    "scripts/setup/requirements.in": "3.9",
}

# Machines that the scripts are run on. A wheel for another one would be a hash that is never looked at.
SYSTEM = re.compile(r"any|(manylinux|linux)\w*_(x86_64|aarch64)|macosx_\w+_(arm64|universal2)")
PYTHON = re.compile(r"py3|py3[0-9]|py31[0-4]|py2\.py3|cp39|cp31[0-4]")
# Not those of a Python without its lock, which end with a t.
BINARY = re.compile(r"none|abi3|cp39|cp31[0-4]")


def fits(filename):
    """Whether a machine of ours could take this wheel: NAME-VERSION[-BUILD]-PYTHON-ABI-SYSTEM.whl."""
    python, binary, system = filename.removesuffix(".whl").split("-")[-3:]
    # A stable interface of an older Python is that of every later one.
    stable = "abi3" in binary.split(".") and re.fullmatch(r"cp3\d+(\.cp3\d+)*", python)
    return bool(
        (stable or any(PYTHON.fullmatch(part) for part in [python, *python.split(".")]))
        and any(BINARY.fullmatch(part) for part in binary.split("."))
        and any(SYSTEM.fullmatch(part) for part in system.split("."))
    )


def hashes(package):
    """The hashes of a package's wheels, or of its source where it has none at all. None where the package is
    left out everywhere."""
    wheels = package.get("wheels", [])
    files = wheels or ([package["sdist"]] if "sdist" in package else [])
    named = [(unquote(urlsplit(file["url"]).path).rsplit("/", 1)[-1], file["hashes"]["sha256"]) for file in files]
    return sorted(digest for name, digest in named if not wheels or fits(name))


def shortened(marker, always):
    """A marker without what holds for every Python that the list is for."""
    if " or " not in marker:
        marker = " and ".join(part for part in marker.split(" and ") if part != always)
    return marker


def resolved(uv, asked, python):
    """The packages that uv finds: those of a list, and what they need."""
    sources = asked.with_name(f"{asked.stem}_sources.in")
    overrides = asked.with_name(f"{asked.stem}.overrides")
    # What has no wheel is in a list of its own.
    built = re.findall(r"^([\w.-]+)==", sources.read_text(), re.M) if sources.exists() else []
    if asked.stem.endswith("_sources"):
        built = re.findall(r"^([\w.-]+)==", asked.read_text(), re.M)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "pylock.toml"
        command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", python, "--no-header"]
        command += ["--format", "pylock.toml", "--output-file", found, "--only-binary", ":all:"]
        command += [word for name in built for word in ("--no-binary", name)]
        command += ["--constraint", sources] if sources.exists() else []
        command += ["--override", overrides] if overrides.exists() else []
        subprocess.run([*command, asked], check=True, stdout=subprocess.DEVNULL)
        packages = tomllib.loads(found.read_text())["packages"]
    elsewhere = built if sources.exists() else []
    return [package for package in packages if package["name"] not in elsewhere]


def main():
    uv, *chosen = sys.argv[1:]
    for name in chosen or LISTS:
        asked = ROOT / name
        lines = [f"# Written by scripts/lock.sh from {name}.\n"]
        for package in resolved(uv, asked, LISTS[name]):
            title = f"{package['name']}=={package['version']}"
            marker = shortened(package.get("marker", ""), f"python_full_version >= '{LISTS[name]}'")
            digests = hashes(package)
            if not digests:
                # Left out, or only for machines that are none of ours.
                continue
            lines.append(" \\\n".join([title + (f" ; {marker}" if marker else ""),
                                       *(f"    --hash=sha256:{digest}" for digest in digests)]) + "\n")
        asked.with_suffix(".txt").write_text("".join(lines))
        print(f"{asked.with_suffix('.txt').relative_to(ROOT)}: {len(lines) - 1} packages")


main()
