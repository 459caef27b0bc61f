"""Writes a tiled pyramid that OpenSlide takes for an Aperio slide: some 200 MB, or of a size in pixels.

    slide_make.py FILE [WIDTH HEIGHT]
"""

import concurrent.futures
import sys

import imagecodecs
import numpy
import tifffile

TILE = 256
WIDTH, HEIGHT = map(int, sys.argv[2:4] or (12288, 10240))
LEVELS = [(WIDTH // scale, HEIGHT // scale) for scale in (1, 4, 16)]
DESCRIPTION = "Aperio Image Library v11.2.1\n{width}x{height} [0,0 {width}x{height}] (256x256) JPEG/RGB Q=80|AppMag = 20|MPP = 0.5"


def pixels(level, row, column):
    """Tissue-like: slow colours, and noise that keeps JPEG from making it small."""
    scale = LEVELS[0][0] // LEVELS[level][0]
    x = (numpy.arange(TILE) + column * TILE) * scale
    y = (numpy.arange(TILE) + row * TILE) * scale
    slow = numpy.sin(x / 911.0)[None, :] * numpy.cos(y / 677.0)[:, None]
    base = numpy.stack([170 + 50 * slow, 110 + 60 * slow * slow, 160 - 40 * slow], axis=-1)
    chance = numpy.random.default_rng([level, row, column])
    return numpy.clip(base + chance.normal(0, 28, (TILE, TILE, 3)), 0, 255).astype(numpy.uint8)


def encoded(place):
    return imagecodecs.jpeg8_encode(pixels(*place), level=93, subsampling="444")


def tiles(level):
    width, height = LEVELS[level]
    places = [
        (level, row, column)
        for row in range(-(-height // TILE))
        for column in range(-(-width // TILE))
    ]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for start in range(0, len(places), 256):
            yield from pool.map(encoded, places[start : start + 256])


with tifffile.TiffWriter(sys.argv[1]) as writer:
    for level, (width, height) in enumerate(LEVELS):
        writer.write(
            tiles(level),
            shape=(height, width, 3),
            dtype="uint8",
            tile=(TILE, TILE),
            photometric="rgb",
            compression="jpeg",
            description=DESCRIPTION.format(width=width, height=height),
            subfiletype=0 if level == 0 else 1,
            metadata=None,
            software=False,
            datetime=False,
        )
