# A bucket with a COG, a folder in the manner of a Sentinel product, and three of those that it is made from.
mc mb --quiet store/earth
mkdir -p earth.made/cog earth.made/S2A_MSIL2A_T31UDQ.SAFE/GRANULE/IMG_DATA
echo '<product/>' >earth.made/S2A_MSIL2A_T31UDQ.SAFE/MTD_MSIL2A.xml
python3 - <<'PYTHON'
from pathlib import Path

import numpy
import rasterio
from rasterio.transform import from_origin


def written(path, size, **driver):
    values = numpy.random.default_rng(1).integers(1, 4000, (size, size), dtype="uint16")
    profile = dict(width=size, height=size, count=1, dtype="uint16", crs="EPSG:32631",
                   transform=from_origin(500_000, 4_600_000, 10, 10), **driver)
    with rasterio.open(path, "w", **profile) as image:
        image.write(values, 1)


written("earth.made/cog/scene.tif", 2048, driver="COG", blocksize=256, compress="deflate", overview_count=2)
for band in "B04", "B08":
    written(f"earth.made/S2A_MSIL2A_T31UDQ.SAFE/GRANULE/IMG_DATA/{band}_10m.jp2", 512,
            driver="JP2OpenJPEG", quality="100", reversible="YES")
for tile in "T31UDQ", "T31UEQ", "T32ULA":
    scene = Path(f"earth.made/S2B_MSIL1C_{tile}.SAFE")
    images = scene / "GRANULE/L1C/IMG_DATA"
    images.mkdir(parents=True)
    for band in "B02", "B04", "B08":
        written(images / f"{band}.jp2", 512, driver="JP2OpenJPEG", quality="100", reversible="YES")
    (scene / "MTD_MSIL1C.xml").write_text("<product level='L1C'/>\n")
PYTHON
mc cp --quiet --recursive earth.made/ store/earth/
rm -r earth.made
