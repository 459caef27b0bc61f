"""The version of a checkout, derived from tags and commits."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


class VersionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPTS / "version", self.root / "scripts/version")
        self.cargo_version("0.2.0")

    def cargo_version(self, version):
        (self.root / "Cargo.toml").write_text(f'[workspace.package]\nversion = "{version}"\n')

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True, env=self.environment())

    def commit(self):
        self.git("add", ".")
        self.git("commit", "--allow-empty", "-m", "change")

    def environment(self, **more):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "QUAYFS_"))}
        return clean | QUIET | AUTHOR | more

    def version(self, **environment):
        return subprocess.run(
            [self.root / "scripts/version"], capture_output=True, text=True, env=self.environment(**environment))

    def check(self, wanted, **environment):
        self.assertRegex(self.version(**environment).stdout, rf"\A{wanted}\n\Z")

    def test_source_without_git_is_a_development_version(self):
        self.check(r"0\.2\.0-dev")

    def test_commit_without_tag_counts_commits(self):
        self.git("init")
        self.commit()
        self.commit()
        self.check(r"0\.2\.0-dev\.2\.g[0-9a-f]{7}")

    def test_tag_gives_its_version(self):
        self.git("init")
        self.commit()
        self.git("tag", "v0.2.0")
        self.check(r"0\.2\.0")

    def test_uncommitted_change_is_no_release(self):
        self.git("init")
        self.commit()
        self.git("tag", "v0.2.0")
        (self.root / "new").write_text("new")
        self.check(r"0\.2\.1-dev\.1\.g[0-9a-f]{7}\.dirty")

    def test_commit_after_release_leads_to_next_patch(self):
        self.git("init")
        self.commit()
        self.git("tag", "v0.2.0")
        self.commit()
        self.check(r"0\.2\.1-dev\.2\.g[0-9a-f]{7}")

    def test_tag_that_disagrees_with_cargo_is_refused(self):
        self.git("init")
        self.commit()
        self.git("tag", "v0.3.0")
        answer = self.version()
        self.assertEqual(answer.returncode, 1)
        self.assertIn("v0.3.0", answer.stderr)

    def test_variable_takes_precedence(self):
        self.check(r"9\.9\.9", QUAYFS_BUILD_VERSION="9.9.9")


if __name__ == "__main__":
    unittest.main()
