"""Makes a small package that pip can install, without a network."""

import pathlib
import sys
import zipfile

files = {
    "quay_example/__init__.py": "from .inner import answer\n",
    "quay_example/inner.py": "def answer():\n    return 42\n",
    "quay_example/data/table.txt": "1 2 3\n" * 1000,
    "quay_example-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: quay-example\nVersion: 1.0\n",
    "quay_example-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
}
record = "quay_example-1.0.dist-info/RECORD"
files[record] = "".join(f"{name},,\n" for name in [*files, record])
wheel = pathlib.Path(sys.argv[1]) / "quay_example-1.0-py3-none-any.whl"
with zipfile.ZipFile(wheel, "w") as archive:
    for name, text in files.items():
        archive.writestr(name, text)
