"""Makes a tiled GeoTIFF and changes a window and its tags in place, or checks that it is so."""

import sys

import numpy
import rasterio
from rasterio.transform import from_origin
from rasterio.windows import Window

what, path = sys.argv[1:]
start = (numpy.arange(1024 * 1024, dtype="uint32") % 60_000).astype("uint16").reshape(1024, 1024)

if what == "write":
    profile = {
        "driver": "GTiff", "width": 1024, "height": 1024, "count": 2, "dtype": "uint16",
        "crs": "EPSG:32631", "transform": from_origin(500_000, 4_600_000, 10, 10),
        "tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate",
    }
    with rasterio.open(path, "w", **profile) as image:
        image.write(start, 1)
        image.write(start[::-1], 2)
    with rasterio.open(path, "r+") as image:
        patch = numpy.full((100, 200), 60_001, dtype="uint16")
        image.write(patch, 1, window=Window(300, 400, 200, 100))
        image.update_tags(note="changed in place")
    with rasterio.open(path, "r+") as image:
        image.build_overviews([2, 4])

want = start.copy()
want[400:500, 300:500] = 60_001
with rasterio.open(path) as image:
    assert (image.read(1) == want).all()
    assert (image.read(2) == start[::-1]).all()
    assert image.tags()["note"] == "changed in place"
    assert image.overviews(1) == [2, 4]
    assert image.crs.to_epsg() == 32631
