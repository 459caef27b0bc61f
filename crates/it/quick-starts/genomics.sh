# A bucket with a genome, an alignment to it and its variants: a read every 50 bases, a variant every 100.
mc mb --quiet store/genomes
python3 - <<'PYTHON'
import random

chance = random.Random(1)
bases = "".join(chance.choices("ACGT", k=5_000_100))
other = {"A": "C", "C": "A", "G": "A", "T": "A"}
sample = "".join(base if place % 100 else other[base] for place, base in enumerate(bases))
with open("genome.fa", "w") as genome:
    genome.write(">chr1\n")
    for start in range(0, len(bases), 60):
        genome.write(bases[start:start + 60] + "\n")
with open("sample.sam", "w") as sam:
    sam.write("@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr1\tLN:5000100\n")
    for start in range(0, 5_000_000, 50):
        quality = "".join(chance.choices("ABCDEFGHI", k=100))
        sam.write(f"r{start}\t0\tchr1\t{start + 1}\t60\t100M\t*\t0\t0\t{sample[start:start + 100]}\t{quality}\n")
with open("sample.vcf", "w") as vcf:
    vcf.write('##fileformat=VCFv4.2\n##contig=<ID=chr1,length=5000100>\n')
    vcf.write("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
    for start in range(0, 5_000_000, 100):
        vcf.write(f"chr1\t{start + 1}\t.\t{bases[start]}\t{sample[start]}\t50\tPASS\t.\n")
PYTHON
samtools view -b --write-index -o sample.bam##idx##sample.bam.bai sample.sam
bcftools view -Oz -o sample.vcf.gz sample.vcf
bcftools index sample.vcf.gz
samtools faidx genome.fa
mc cp --quiet genome.fa genome.fa.fai store/genomes/reference/
# Indexes must not be older than what they are of.
mc cp --quiet sample.bam sample.vcf.gz store/genomes/cohort/
mc cp --quiet sample.bam.bai sample.vcf.gz.csi store/genomes/cohort/
rm sample.* genome.*
