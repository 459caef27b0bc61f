"""The changelogs of packages and the notes of releases, made from CHANGELOG.md."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "changelog"
FILE = """# Changelog

## Unreleased

### Added

### Fixed

- A new `flag` for [pages](docs/pages.md),
  100% of them.

## 0.2.0 - 2026-03-01

### Changed

- The second release.

## 0.1.0 - 2026-02-01

### Added

- The first release.
"""


class ChangelogTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "CHANGELOG.md")
        self.path.write_text(FILE)

    def ask(self, *arguments):
        # The first of April 2026.
        environment = os.environ | {"QUAYFS_CHANGELOG": str(self.path), "SOURCE_DATE_EPOCH": "1775001600"}
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=environment)

    def refused(self, text, words):
        self.path.write_text(text)
        answer = self.ask("check")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(words, answer.stderr)

    def test_notes_of_release_are_its_section(self):
        self.assertEqual(self.ask("notes", "0.2.0").stdout, "### Changed\n\n- The second release.\n")

    def test_notes_of_development_version_are_unreleased(self):
        notes = self.ask("notes", "0.3.0-dev.7.g1234567").stdout
        self.assertIn("A new `flag`", notes)
        self.assertNotIn("### Added", notes, "a heading without entries")

    def test_notes_without_unreleased_section_say_so(self):
        self.path.write_text(FILE[FILE.index("## 0.2.0"):])
        self.assertEqual(self.ask("notes", "0.3.0-dev").stdout, "Nothing has changed.\n")

    def test_release_without_section_is_refused(self):
        self.assertEqual(self.ask("check", "0.2.0").returncode, 0)
        self.assertEqual(self.ask("check", "0.3.0-dev").returncode, 0)
        answer = self.ask("check", "0.3.0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("0.3.0", answer.stderr)

    def test_debian_form_begins_with_this_version(self):
        text = self.ask("debian", "0.3.0-dev", "0.3.0~dev", "A B <a@b>").stdout
        self.assertTrue(text.startswith("quayfs (0.3.0~dev) unstable; urgency=medium\n\n  * Fixed: A new flag"), text)
        self.assertIn(" -- A B <a@b>  Wed, 01 Apr 2026 00:00:00 +0000\n", text)
        self.assertIn("quayfs (0.2.0) unstable", text)

    def test_debian_form_of_release_leaves_newer_ones_out(self):
        text = self.ask("debian", "0.1.0", "0.1.0", "A B <a@b>").stdout
        self.assertNotIn("0.2.0", text)
        self.assertNotIn("flag", text)

    def test_rpm_form_escapes_macros(self):
        text = self.ask("rpm", "0.3.0-dev", "0.3.0~dev", "A B <a@b>").stdout
        self.assertIn("* Wed Apr 01 2026 A B <a@b> - 0.3.0~dev-1\n- Fixed: A new flag for pages, 100%% of them.\n", text)

    def test_release_turns_unreleased_into_its_section(self):
        self.assertEqual(self.ask("release", "0.3.0").returncode, 0)
        text = self.path.read_text()
        self.assertIn("## Unreleased\n\n### Added\n", text)
        self.assertIn("## 0.3.0 - 2026-04-01\n", text)
        self.assertEqual(self.ask("check", "0.3.0").returncode, 0)
        self.assertIn("A new `flag`", self.ask("notes", "0.3.0").stdout)
        self.assertEqual(self.ask("release", "0.3.0").returncode, 1, "a second time")

    def test_wrong_forms_are_refused(self):
        self.refused(FILE.replace("### Fixed", "### Mended"), "`Mended` is none of")
        self.refused(FILE.replace("- 2026-03-01", ""), "neither")
        self.refused(FILE.replace("### Fixed", "### Added"), "comes twice")
        self.refused(FILE.replace("- The second", "The second"), "neither a heading nor an entry")
        self.refused(FILE.replace("2026-03-01", "2026-01-01"), "which is newer")


if __name__ == "__main__":
    unittest.main()
