"""Reads 20 windows and an overview of an image. Prints what that took."""

import random
import sys
import time

import rasterio
from rasterio.windows import Window

chance = random.Random(7)
started = time.perf_counter()
with rasterio.open(sys.argv[1]) as image:
    image.read(1, out_shape=(512, 512))
    for _ in range(20):
        place = (chance.randrange(image.width - 512), chance.randrange(image.height - 512))
        image.read(1, window=Window(*place, 512, 512))
print("micros", int((time.perf_counter() - started) * 1e6))
