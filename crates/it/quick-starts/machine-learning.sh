# A bucket with 400 small pictures of two classes.
mc mb --quiet store/datasets
python3 - <<'PYTHON'
from pathlib import Path

import numpy
from PIL import Image

chance = numpy.random.default_rng(1)
y, x = numpy.mgrid[0:32, 0:32]
for name, inside in (("circles", lambda r: x * x + y * y < r * r), ("squares", lambda r: (x < r) & (y < r))):
    folder = Path("datasets.made/shapes/train", name)
    folder.mkdir(parents=True)
    for number in range(200):
        noise = chance.integers(0, 60, (32, 32))
        Image.fromarray((inside(chance.integers(8, 30)) * 180 + noise).astype("uint8")).save(folder / f"{number:04}.png")
PYTHON
mc cp --quiet --recursive datasets.made/ store/datasets/
rm -r datasets.made
