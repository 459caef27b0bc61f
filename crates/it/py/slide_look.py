"""Prints what OpenSlide says of a slide, with sums of its thumbnail and of some regions."""

import hashlib
import sys

import openslide


def told(name, image):
    print(name, image.size, hashlib.sha256(image.tobytes()).hexdigest())


with openslide.OpenSlide(sys.argv[1]) as slide:
    print(slide.properties["openslide.vendor"], slide.level_count, slide.level_dimensions)
    told("thumbnail", slide.get_thumbnail((512, 512)))
    width, height = slide.dimensions
    for step in range(8):
        # All over the slide, across the borders of tiles.
        place = (step * (width - 900) // 7, (step * 3 % 8) * (height - 700) // 7)
        told(f"level 0 at {place}", slide.read_region(place, 0, (900, 700)))
    for level in range(slide.level_count):
        told(f"level {level}", slide.read_region((1000, 1000), level, (512, 512)))
