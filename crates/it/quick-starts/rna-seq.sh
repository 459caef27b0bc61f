# A bucket with ten transcripts, and reads of 25 samples each of which has ten times as much of one transcript.
mc mb --quiet store/rnaseq
python3 - <<'PYTHON'
import gzip
import random
from pathlib import Path

chance = random.Random(1)
transcripts = ["".join(chance.choices("ACGT", k=1_000)) for _ in range(10)]
back = str.maketrans("ACGT", "TGCA")
Path("rnaseq.made/reads").mkdir(parents=True)
with open("rnaseq.made/transcripts.fa", "w") as fasta:
    for number, bases in enumerate(transcripts):
        fasta.write(f">transcript{number}\n{bases}\n")


def mate(name, bases):
    return f"@{name}\n{bases}\n+\n{'I' * len(bases)}\n"


for sample in range(25):
    weights = [10 if number == sample % 10 else 1 for number in range(10)]
    first, second = [], []
    for number, bases in enumerate(chance.choices(transcripts, weights, k=500)):
        start = chance.randrange(len(bases) - 200)
        fragment = bases[start : start + 200]
        first.append(mate(number, fragment[:75]))
        second.append(mate(number, fragment.translate(back)[:-76:-1]))
    for side, reads in (1, first), (2, second):
        path = Path(f"rnaseq.made/reads/sample{sample:02}_{side}.fq.gz")
        path.write_bytes(gzip.compress("".join(reads).encode()))
PYTHON
mc cp --quiet --recursive rnaseq.made/ store/rnaseq/
rm -r rnaseq.made
