"""Changes files and writes down what it was promised, outside of the mount.

Each line of the journal is one JSON object of one worker. `will` says what is about to become of
some paths, all or none: to each its SHA-256, or null where nothing will be; and by doing what. `did` says that the last
`will` of that worker was promised, `failed` that it got an error instead, and whether the mount was
`alive` then, `wrong` that a file did not read as it should. A worker ends at its first error, and does one thing at a time.
"""

import errno
import hashlib
import json
import os
import random
import sys
import threading

folder, journal, state, seed, workers = sys.argv[1:]
lines = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
FILES_MAX = 10
LINK = "-link"
SIZES = [(2, 0, 0), (40, 1, 5_000), (30, 5_000, 300_000), (15, 300_000, 6 << 20), (3, 6 << 20, 40 << 20)]


def digest(content):
    return hashlib.sha256(content).hexdigest()


def is_alive():
    """What the kernel answers by itself of a mount that is gone takes several errors."""
    try:
        os.statvfs(folder)
        return True
    except OSError as error:
        return error.errno not in (errno.ENOTCONN, errno.ECONNABORTED)


class Worker(threading.Thread):
    def __init__(self, number, files):
        super().__init__()
        self.name = f"w{number}"
        self.random = random.Random(f"{seed}-{number}")
        # The name of what it is doing.
        self.act = None
        # Path to sum, of all that is promised.
        self.files = files
        self.count = 0

    def say(self, **words):
        os.write(lines, (json.dumps({"worker": self.name, **words}) + "\n").encode())

    def run(self):
        acts = [
            (6, self.make),
            (4, self.replace),
            (5, self.edit),
            (4, self.append),
            (3, self.cut),
            (3, self.rename),
            (1, self.rename_folder),
            (2, self.remove),
            (2, self.link),
        ]
        weights = [weight for weight, _ in acts]
        try:
            self.make_folder(self.at(self.name))
            while True:
                _, act = self.random.choices(acts, weights)[0]
                self.act = act.__name__
                act()
        except OSError as error:
            self.say(failed=str(error), alive=is_alive())
        except Exception as error:
            self.say(wrong=repr(error))

    def promised(self, changes, act):
        """Does what changes `changes`, and knows that they are promised when it returns."""
        self.say(will=changes, by=self.act)
        act()
        self.say(did=True)
        for path, content in changes.items():
            if content is None:
                self.files.pop(path, None)
            else:
                self.files[path] = content

    def at(self, path):
        return os.path.join(folder, path)

    def make_folder(self, path):
        try:
            os.mkdir(path)
        except FileExistsError:
            pass

    def fresh_path(self, links=False):
        self.count += 1
        below = self.random.choice(["", "", "a/", "b/"])
        path = f"{self.name}/{below}{seed}-{self.count}{LINK if links else ''}"
        self.make_folder(os.path.dirname(self.at(path)))
        return path

    def some_path(self, links=False):
        """That of a file, or of a symbolic link."""
        paths = sorted(path for path in self.files if path.endswith(LINK) == links)
        return self.random.choice(paths) if paths else None

    def bytes(self):
        _, least, most = self.random.choices(SIZES, [weight for weight, _, _ in SIZES])[0]
        return self.random.randbytes(self.random.randint(least, most))

    def write(self, fd, content, offset):
        """In a few pieces; now and then what is there so far is synced."""
        content = memoryview(content)
        while content:
            piece = content[: self.random.randint(1, max(len(content), 1 << 17))]
            written = os.pwrite(fd, piece, offset)
            content, offset = content[written:], offset + written

    def finish(self, fd, path, content):
        changes = {path: digest(content)}
        if self.random.random() < 0.3:
            self.promised(changes, lambda: os.fsync(fd))
        self.promised(changes, lambda: os.close(fd))

    def make(self):
        if FILES_MAX <= len(self.files):
            return self.remove()
        path, content = self.fresh_path(), self.bytes()
        fd = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        half = self.random.randint(0, len(content))
        self.write(fd, content[:half], 0)
        if self.random.random() < 0.2:
            self.promised({path: digest(content[:half])}, lambda: os.fsync(fd))
        self.write(fd, content[half:], half)
        self.finish(fd, path, content)

    def replace(self):
        path = self.some_path()
        if path is None:
            return
        content = self.bytes()
        fd = os.open(self.at(path), os.O_WRONLY | os.O_TRUNC)
        self.write(fd, content, 0)
        self.finish(fd, path, content)

    def opened(self, flags=os.O_RDWR):
        """Some file, read and found to be what was promised."""
        path = self.some_path()
        if path is None:
            return None, None, None
        fd = os.open(self.at(path), flags)
        size, content = os.fstat(fd).st_size, bytearray()
        while len(content) < size:
            piece = os.pread(fd, size - len(content), len(content))
            if not piece:
                break
            content += piece
        if digest(content) != self.files[path]:
            raise ValueError(f"{path} is not as it was promised")
        return fd, path, content

    def edit(self):
        fd, path, content = self.opened()
        if fd is None:
            return
        for _ in range(self.random.randint(1, 3)):
            offset = self.random.randint(0, len(content))
            piece = self.random.randbytes(self.random.randint(1, 200_000))
            content[offset : offset + len(piece)] = piece
            self.write(fd, piece, offset)
        self.finish(fd, path, content)

    def append(self):
        fd, path, content = self.opened()
        if fd is None:
            return
        more = self.bytes()
        self.write(fd, more, len(content))
        self.finish(fd, path, content + more)

    def cut(self):
        fd, path, content = self.opened()
        if fd is None:
            return
        size = self.random.randint(0, len(content) + 100_000)
        os.ftruncate(fd, size)
        self.finish(fd, path, content[:size] + bytes(max(0, size - len(content))))

    def rename(self):
        links = self.random.random() < 0.3
        old = self.some_path(links)
        if old is None:
            return
        new = self.random.choice([self.some_path, self.fresh_path])(links)
        if old != new:
            changes = {old: None, new: self.files[old]}
            self.promised(changes, lambda: os.rename(self.at(old), self.at(new)))

    def link(self):
        """The object of a link is its target."""
        path = self.fresh_path(links=True)
        target = "../" + "t" * self.random.randint(1, 100)
        self.promised({path: digest(target.encode())}, lambda: os.symlink(target, self.at(path)))
        if os.readlink(self.at(path)) != target:
            raise ValueError(f"{path} leads elsewhere")

    def rename_folder(self):
        old = f"{self.name}/a/"
        inside = [path for path in self.files if path.startswith(old)]
        if not inside:
            return
        self.count += 1
        new = f"{self.name}/b/{seed}-{self.count}-a/"
        self.make_folder(self.at(f"{self.name}/b"))
        changes = {path: None for path in inside}
        changes |= {new + path.removeprefix(old): self.files[path] for path in inside}
        self.promised(changes, lambda: os.rename(self.at(old), self.at(new)))

    def remove(self):
        path = self.some_path(links=self.random.random() < 0.3)
        if path is not None:
            self.promised({path: None}, lambda: os.unlink(self.at(path)))


with open(state) as file:
    known = json.load(file)
running = []
for number in range(int(workers)):
    own = {path: content for path, content in known.items() if path.startswith(f"w{number}/")}
    running.append(Worker(number, own))
for worker in running:
    worker.start()
for worker in running:
    worker.join()
