"""dist/install.sh against a server on this machine, with good, changed and missing files."""

import hashlib
import http.server
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
from functools import partial
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "dist/install.sh"
MACHINE = os.uname().machine
NOBODY = 65534


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def archive(version, files):
    """A release archive whose program only tells its version, and the archive's name."""
    name = f"quayfs-{version}-{MACHINE}-linux"
    program = f"#!/bin/sh\necho quayfs {version}\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, text in {"usr/bin/quayfs": program, **files}.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return f"{name}.tar.gz", buffer.getvalue()


class InstallTest(unittest.TestCase):
    def setUp(self):
        # Another user can enter it, who is the one that installs when this is root.
        self.folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.served = self.folder / "served"
        self.home = self.folder / "home"
        self.prefix = self.home / "a prefix"
        self.served.mkdir()
        self.home.mkdir()
        if os.getuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=self.served))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.script = self.folder / "install.sh"
        shutil.copy(SCRIPT, self.script)

    def release(self, version="1.2.0", files=None):
        for old in self.served.iterdir():
            old.unlink()
        name, data = archive(version, files if files is not None else {"usr/share/man/man1/quayfs.1.gz": "page"})
        (self.served / name).write_bytes(data)
        other = "0" * 64 + f"  quayfs-{version}-riscv64-linux.tar.gz\n"
        (self.served / "SHA256SUMS").write_text(f"{other}{hashlib.sha256(data).hexdigest()}  {name}\n")
        return self.served / name

    def run_script(self, *arguments, path=os.environ["PATH"], prefix=True):
        environment = {"HOME": str(self.home), "PATH": path, "TMPDIR": str(self.home), "no_proxy": "*"}
        if prefix:
            environment["PREFIX"] = str(self.prefix)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.run(
            ["sh", self.script, *arguments], capture_output=True, text=True, env=environment, cwd="/", **user)

    def install(self, **more):
        answer = self.run_script(self.url, **more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def refused(self, words, *arguments):
        answer = self.run_script(*(arguments or [self.url]))
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertIn(words, answer.stderr)
        self.assertEqual(self.files(), [], "something was installed, or left in the temporary folder")

    def files(self):
        return sorted(str(p.relative_to(self.home)) for p in self.home.rglob("*") if not p.is_dir())

    def test_good_release_is_installed_without_root(self):
        self.release()
        self.assertIn("installed quayfs 1.2.0", self.install())
        self.assertEqual(self.files(), [
            "a prefix/bin/quayfs", "a prefix/share/man/man1/quayfs.1.gz", "a prefix/share/quayfs/installed-files"])

    def test_default_prefix_of_user_is_local(self):
        self.release()
        self.install(prefix=False)
        self.assertIn(".local/bin/quayfs", self.files())

    def test_wget_serves_where_curl_is_missing(self):
        self.assertTrue(shutil.which("wget"), "scripts/setup installs wget")
        tools = self.folder / "tools"
        tools.mkdir()
        for folder in ("/bin", "/usr/bin"):
            for tool in Path(folder).iterdir():
                if tool.name != "curl" and not (tools / tool.name).is_symlink():
                    (tools / tool.name).symlink_to(tool)
        self.release()
        self.install(path=str(tools))

    def test_changed_archive_is_refused(self):
        path = self.release()
        path.write_bytes(path.read_bytes() + b"x")
        self.refused("is not the file that was released")

    def test_cut_archive_is_refused(self):
        path = self.release()
        path.write_bytes(path.read_bytes()[:-10])
        self.refused("is not the file that was released")

    def test_missing_archive_is_refused(self):
        self.release().unlink()
        self.refused("cannot download")

    def test_missing_checksums_are_refused(self):
        self.release()
        (self.served / "SHA256SUMS").unlink()
        self.refused("cannot download")

    def test_checksums_without_this_processor_are_refused(self):
        self.release()
        sums = self.served / "SHA256SUMS"
        sums.write_text(sums.read_text().splitlines()[0] + "\n")
        self.refused(f"lists no archive for {MACHINE}")

    def test_two_releases_in_one_folder_are_refused(self):
        self.release()
        sums = self.served / "SHA256SUMS"
        sums.write_text(sums.read_text() + "1" * 64 + f"  quayfs-1.3.0-{MACHINE}-linux.tar.gz\n")
        self.refused("several archives")

    def test_name_with_path_is_refused(self):
        self.release()
        (self.served / "SHA256SUMS").write_text("1" * 64 + f"  quayfs-../../x-{MACHINE}-linux.tar.gz\n")
        self.refused("lists no archive")

    def test_unreachable_server_is_refused(self):
        self.refused("cannot download", "http://127.0.0.1:1")

    def test_upgrade_removes_files_of_old_version(self):
        self.release(files={"usr/share/man/man1/old.1.gz": "old", "usr/share/man/man1/both.1.gz": "both"})
        self.install()
        self.release("1.3.0", files={"usr/share/man/man1/both.1.gz": "both"})
        self.assertIn("installed quayfs 1.3.0", self.install())
        self.assertEqual(self.files(), [
            "a prefix/bin/quayfs", "a prefix/share/man/man1/both.1.gz", "a prefix/share/quayfs/installed-files"])

    def test_failed_upgrade_keeps_old_version(self):
        self.release()
        self.install()
        path = self.release("1.3.0")
        path.write_bytes(b"something else")
        self.assertEqual(self.run_script(self.url).returncode, 1)
        answer = subprocess.run([self.prefix / "bin/quayfs"], capture_output=True, text=True, check=True)
        self.assertEqual(answer.stdout, "quayfs 1.2.0\n")

    def test_uninstall_leaves_other_files(self):
        self.release()
        self.install()
        other = self.prefix / "bin/other"
        other.write_text("other")
        self.assertEqual(self.run_script("--uninstall").returncode, 0)
        self.assertEqual(self.files(), ["a prefix/bin/other"])

    def test_uninstall_without_installation_is_refused(self):
        self.refused("nothing to remove", "--uninstall")


if __name__ == "__main__":
    unittest.main()
