"""Makes an HDF5 file, grows it and changes it in place, or checks that it is so."""

import sys

import h5py
import numpy

what, path = sys.argv[1:]
start = numpy.arange(300_000, dtype="int32").reshape(300, 1000)
more = numpy.full((100, 1000), 7, dtype="int32")

if what == "write":
    with h5py.File(path, "w") as file:
        options = {"maxshape": (None, 1000), "chunks": (50, 100), "compression": "gzip"}
        file.create_dataset("group/table", data=start, **options)
        file.attrs["title"] = "first"
    with h5py.File(path, "a") as file:
        table = file["group/table"]
        table.resize((400, 1000))
        table[300:] = more
        file.create_dataset("later", data=numpy.ones(5000))
    with h5py.File(path, "r+") as file:
        file["group/table"][10:20, 500:510] = -1
        file.attrs["title"] = "changed in place"

want = numpy.concatenate([start, more])
want[10:20, 500:510] = -1
with h5py.File(path, "r") as file:
    assert (file["group/table"][:] == want).all()
    assert (file["later"][:] == 1).all()
    assert file.attrs["title"] == "changed in place"
