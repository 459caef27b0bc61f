"""Writes a cloud-optimised GeoTIFF of some 100 MB."""

import sys

import numpy
import rasterio
from rasterio.shutil import copy
from rasterio.transform import from_origin

SIZE = 8192
chance = numpy.random.default_rng(7)
x = numpy.arange(SIZE)
slow = 2000 * numpy.sin(x / 700.0)[None, :] * numpy.cos(x / 500.0)[:, None]
pixels = (slow + 5000 + chance.normal(0, 90, (SIZE, SIZE))).astype("uint16")
profile = {
    "driver": "GTiff", "width": SIZE, "height": SIZE, "count": 1, "dtype": "uint16",
    "crs": "EPSG:32631", "transform": from_origin(500_000, 4_600_000, 10, 10),
}
with rasterio.MemoryFile() as memory:
    with memory.open(**profile) as image:
        image.write(pixels, 1)
    with memory.open() as image:
        copy(image, sys.argv[1], driver="COG", compress="deflate", blocksize=512)
