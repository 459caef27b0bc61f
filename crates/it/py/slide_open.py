"""Opens a slide and reads one tile of it, as a viewer does first."""

import sys

import openslide

with openslide.OpenSlide(sys.argv[1]) as slide:
    assert slide.properties["openslide.vendor"] == "aperio"
    slide.read_region((5000, 5000), 0, (256, 256)).load()
