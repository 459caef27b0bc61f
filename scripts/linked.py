"""The libraries that are linked into the binary, as Cargo tells them, for scripts that list them."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "quayfs-cli"


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(target):
    """The libraries in the binary for a target: name, version and licence. The crates of quayfs are not among them."""
    tree = cargo("tree", "--locked", "--package", PACKAGE, "--edges", "normal", "--target", target,
                 "--all-features", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}")
    found = set()
    for line in tree.splitlines():
        package, _, licence = line.rpartition("|")
        name, version = package.split()[:2]
        if "(proc-macro)" not in package and not name.startswith("quayfs-"):
            found.add((name, version.removeprefix("v"), licence))
    return sorted(found)


def metadata():
    return json.loads(cargo("metadata", "--locked", "--all-features", "--format-version", "1"))
