"""Holds one file open and does with it what it is told: one JSON request a line."""

import json
import os
import sys

HOW = {
    "whole": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "exclusive": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "edit": os.O_WRONLY,
    "append": os.O_WRONLY | os.O_APPEND,
}
fd = None


def write(request):
    with open(request["file"], "rb") as file:
        left = memoryview(file.read())
    offset = request.get("offset")
    while left:
        if offset is None:
            written = os.write(fd, left)
        else:
            written = os.pwrite(fd, left, offset)
            offset += written
        left = left[written:]


for line in sys.stdin:
    request = json.loads(line)
    answer = {}
    try:
        match request["do"]:
            case "open":
                fd = os.open(request["path"], HOW[request["how"]])
            case "write":
                write(request)
            case "sync":
                os.fsync(fd)
            case "close":
                os.close(fd)
    except OSError as error:
        answer = {"errno": error.errno}
    print(json.dumps(answer), flush=True)
