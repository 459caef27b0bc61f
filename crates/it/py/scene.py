"""Makes a scene as a folder of files, or makes the next product of one, in place beside it, as the processors of
satellite images do: a database of intermediates that is written all over, files changed and renamed, folders renamed.

    scene.py make SIZE FOLDER.SAFE...
    scene.py process FOLDER.SAFE...
"""

import os
import random
import sys
from pathlib import Path

import h5py
import numpy
import rasterio
from rasterio.enums import Resampling
from rasterio.transform import from_origin
from rasterio.windows import Window

BANDS = "B02", "B03", "B04", "B08"
TILE = 128
IMAGES = "GRANULE/L1C_T31UDQ/IMG_DATA"


def profile(size, **driver):
    return dict(width=size, height=size, count=1, dtype="uint16", crs="EPSG:32631",
                transform=from_origin(500_000, 4_600_000, 10, 10), **driver)


def write_jp2(path, values):
    """By another name first, so that nobody finds half an image."""
    part = path.with_suffix(".part.jp2")
    with rasterio.open(part, "w", **profile(len(values), driver="JP2OpenJPEG", quality="100", reversible="YES")) as image:
        image.write(values, 1)
    os.rename(part, path)


def make(folder, size, seed):
    noise = numpy.random.default_rng(seed)
    (folder / IMAGES).mkdir(parents=True)
    for band in BANDS:
        write_jp2(folder / IMAGES / f"{band}.jp2", noise.integers(1, 4000, (size, size), dtype="uint16"))
    (folder / "MTD.xml").write_text("<product level='L1C'>" + "<line/>" * 2000 + "</product>\n")


def tiles(size, order):
    corners = [(row, column) for row in range(0, size, TILE) for column in range(0, size, TILE)]
    order.shuffle(corners)
    return [numpy.s_[row:row + TILE, column:column + TILE] for row, column in corners]


def import_bands(scene, database, order):
    with h5py.File(database, "w") as file:
        for band in BANDS:
            with rasterio.open(scene / IMAGES / f"{band}.jp2") as image:
                values = image.read(1)
            table = file.create_dataset(band, values.shape, "float32", chunks=(TILE, TILE))
            for tile in tiles(len(values), order):
                table[tile] = values[tile]


def correct(database, order):
    """Every tile is read, computed and written where it was; a class of each pixel is added."""
    with h5py.File(database, "r+") as file:
        size = len(file["B04"])
        classes = file.create_dataset("classes", (size, size), "uint8", chunks=(TILE, TILE), compression="gzip")
        for tile in tiles(size, order):
            haze = numpy.sort(file["B02"][tile], axis=None)[TILE]
            for band in BANDS:
                file[band][tile] = numpy.sqrt(numpy.maximum(file[band][tile] - haze, 0)) * 50
            red, infrared = file["B04"][tile], file["B08"][tile]
            classes[tile] = numpy.digitize((infrared - red) / numpy.maximum(infrared + red, 1), [-0.5, 0, 0.5])


def export(database, images):
    with h5py.File(database, "r") as file:
        for band in BANDS:
            write_jp2(images / f"{band}.jp2", file[band][:].astype("uint16"))
        preview = images / "preview.tif"
        size = len(file["B04"])
        with rasterio.open(preview, "w", **profile(size, driver="GTiff", tiled=True, blockxsize=128, blockysize=128)) as image:
            image.write(file["classes"][:].astype("uint16"), 1)
    # As it stands: a patch, tags and overviews go into the file that is there.
    with rasterio.open(preview, "r+") as image:
        image.write(numpy.full((20, 30), 9, "uint16"), 1, window=Window(40, 50, 30, 20))
        image.update_tags(level="L2A")
    with rasterio.open(preview, "r+") as image:
        image.build_overviews([2, 4], Resampling.nearest)


def describe(scene, product):
    text = (scene / "MTD.xml").read_bytes()
    path = product / "MTD.xml"
    path.write_bytes(text)
    with open(path, "r+b") as file:
        file.seek(text.index(b"L1C"))
        file.write(b"L2A")
        file.seek(0, os.SEEK_END)
        file.write(b"<processed/>\n")
        file.truncate(file.tell() - 1)


def process(scene):
    order = random.Random(scene.name)
    unfinished = scene.with_name(scene.name.replace("MSIL1C", "MSIL2A") + ".unfinished")
    images = unfinished / IMAGES / "R10m"
    images.mkdir(parents=True)
    (unfinished / "AUX_DATA").mkdir()
    database = unfinished / "AUX_DATA/intermediate.h5"
    import_bands(scene, database, order)
    correct(database, order)
    export(database, images)
    os.rename(database, unfinished / "AUX_DATA/tables.h5")
    describe(scene, unfinished)
    granule = unfinished / "GRANULE"
    os.rename(granule / "L1C_T31UDQ", granule / "L2A_T31UDQ")
    for band in BANDS:
        images = granule / "L2A_T31UDQ/IMG_DATA/R10m"
        os.rename(images / f"{band}.jp2", images / f"T31UDQ_{band}_10m.jp2")
    os.rename(unfinished, unfinished.with_suffix(""))


if sys.argv[1] == "make":
    for number, folder in enumerate(sys.argv[3:]):
        make(Path(folder), int(sys.argv[2]), number)
else:
    for folder in sys.argv[2:]:
        process(Path(folder))
