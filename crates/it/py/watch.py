"""Watches a folder with inotify: says `watching`, then a line an event, its kind and its name."""

import ctypes
import os
import struct
import sys

KINDS = {
    0x2: "modify",
    0x4: "attrib",
    0x8: "close_write",
    0x40: "moved_from",
    0x80: "moved_to",
    0x100: "create",
    0x200: "delete",
}
libc = ctypes.CDLL(None, use_errno=True)
watcher = libc.inotify_init1(0)
if libc.inotify_add_watch(watcher, os.fsencode(sys.argv[1]), sum(KINDS)) < 0:
    raise OSError(ctypes.get_errno(), "inotify_add_watch")
print("watching", flush=True)
while True:
    events = os.read(watcher, 65536)
    at = 0
    while at < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, at)
        name = events[at + 16 : at + 16 + length].rstrip(b"\0").decode()
        for bit, kind in KINDS.items():
            if mask & bit:
                print(kind, name, flush=True)
        at += 16 + length
