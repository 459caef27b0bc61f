"""The formula and the recipe of a release."""

import hashlib
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "channels"


class ChannelsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, version, machines=("x86_64", "aarch64")):
        lines = [f"{hashlib.sha256(m.encode()).hexdigest()}  quayfs-{version}-{m}-linux.tar.xz\n" for m in machines]
        (self.folder / "SHA256SUMS").write_text("".join(lines))
        return subprocess.run(
            [SCRIPT, self.folder, "https://example.com/r/", self.folder], capture_output=True, text=True)

    def recipe_version(self, version):
        self.assertEqual(self.write(version).returncode, 0)
        text = (self.folder / "recipe.yaml").read_text()
        return text.split('  version: "')[1].split('"')[0]

    def test_formula_names_archives_with_checksums(self):
        self.assertEqual(self.write("1.2.0").returncode, 0)
        text = (self.folder / "quayfs.rb").read_text()
        self.assertNotIn("@", text.replace("@bin", ""))
        for machine in ("x86_64", "aarch64"):
            entry = (f'url "https://example.com/r/quayfs-1.2.0-{machine}-linux.tar.xz"\n'
                     f'    sha256 "{hashlib.sha256(machine.encode()).hexdigest()}"')
            self.assertIn(entry, text)

    def test_recipe_has_versions_that_conda_sorts(self):
        self.assertEqual(self.recipe_version("1.2.0"), "1.2.0")
        self.assertEqual(self.recipe_version("1.2.0-dev.7.gabc1234.dirty"), "1.2.0.dev7+gabc1234.dirty")
        self.assertEqual(self.recipe_version("1.2.0-dev"), "1.2.0.dev0")
        self.assertEqual(self.recipe_version("1.2.0-rc.1"), "1.2.0rc1")

    def test_release_of_one_processor_is_refused(self):
        answer = self.write("1.2.0", ["x86_64"])
        self.assertEqual(answer.returncode, 1)
        self.assertIn("SHA256_AARCH64", answer.stderr)


if __name__ == "__main__":
    unittest.main()
