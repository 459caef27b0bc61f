"""Looks at a slide as a viewer does: opens it, a thumbnail, 20 regions. Prints what that took."""

import random
import sys
import time

import openslide

chance = random.Random(7)
started = time.perf_counter()
with openslide.OpenSlide(sys.argv[1]) as slide:
    slide.get_thumbnail((512, 512)).load()
    width, height = slide.dimensions
    for _ in range(20):
        place = (chance.randrange(width - 512), chance.randrange(height - 512))
        slide.read_region(place, 0, (512, 512)).load()
print("micros", int((time.perf_counter() - started) * 1e6))
