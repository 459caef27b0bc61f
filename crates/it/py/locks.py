"""Locks, by a program of its own: takes one on a file, says how that went, and holds it until told.

    locks.py PATH flock|fcntl|ofd exclusive|shared wait|try|interrupted

Says `held`, `refused` or `interrupted`, and ends when its input does.
"""

import errno
import fcntl
import os
import signal
import struct
import sys

path, kind, mode, patience = sys.argv[1:]
# Linux's numbers, which this module does not name.
F_OFD_SETLK, F_OFD_SETLKW = 37, 38
file = os.open(path, os.O_RDWR)


def take():
    if kind == "flock":
        how = fcntl.LOCK_EX if mode == "exclusive" else fcntl.LOCK_SH
        fcntl.flock(file, how if patience != "try" else how | fcntl.LOCK_NB)
        return
    what = fcntl.F_WRLCK if mode == "exclusive" else fcntl.F_RDLCK
    lock = struct.pack("hhqqi4x", what, os.SEEK_SET, 0, 0, 0)
    waits, tries = (F_OFD_SETLKW, F_OFD_SETLK) if kind == "ofd" else (fcntl.F_SETLKW, fcntl.F_SETLK)
    fcntl.fcntl(file, tries if patience == "try" else waits, lock)


class Interrupted(Exception):
    pass


def interrupt(*_):
    raise Interrupted


if patience == "interrupted":
    # One signal may come before the call: they come until one ends it.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)

try:
    take()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("held", flush=True)
except Interrupted:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("interrupted", flush=True)
except OSError as error:
    if error.errno not in (errno.EAGAIN, errno.EACCES):
        raise
    print("refused", flush=True)

sys.stdin.read()
