// Reads of made-up samples, trimmed, aligned, called and counted: tasks of real tools, files of all sizes, a folder
// and a link as outputs, and a task that is killed when it is tried first.

process READS {
    input:
    tuple val(sample), path(reference)

    output:
    tuple val(sample), path("${sample}.{1,2}.fq")

    script:
    """
    wgsim -N 400 -1 70 -2 70 -r 0.01 -S ${sample.drop(1)} $reference ${sample}.1.fq ${sample}.2.fq > truth.txt
    """
}

process TRIM {
    input:
    tuple val(sample), path(reads)

    output:
    tuple val(sample), path("trimmed.?.fq")

    script:
    """
    for side in 1 2; do seqtk trimfq ${sample}.\$side.fq > trimmed.\$side.fq; done
    """
}

// A folder, which every sample takes.
process INDEX {
    input:
    path reference

    output:
    path 'index'

    script:
    """
    samtools faidx $reference
    for start in 1 5001 10001 15001 20001 25001; do
        samtools faidx $reference chr1:\$start-\$((start + 4999)) | sed "1s/.*/>t\$start/"
    done > transcripts.fa
    salmon index --threads 1 -t transcripts.fa -i index
    """
}

process QUANTIFY {
    publishDir "$params.out/counts", mode: 'copy'

    input:
    tuple val(sample), path(reads)
    path index

    output:
    path "${sample}.sf"

    script:
    """
    salmon quant --threads 1 -i $index -l A -1 trimmed.1.fq -2 trimmed.2.fq -o quant
    mv quant/quant.sf ${sample}.sf
    """
}

process ALIGN {
    input:
    tuple val(sample), path(reads), path(reference)

    output:
    tuple val(sample), path("${sample}.bam"), path("${sample}.bam.bai")

    script:
    """
    minimap2 -t 1 -ax sr -R '@RG\\tID:$sample\\tSM:$sample' $reference $reads | samtools sort -o ${sample}.bam
    samtools index ${sample}.bam
    """
}

// What hands its input on hands on a link.
process PASS {
    publishDir "$params.out/passed", mode: 'copy', pattern: 'passed.bam', saveAs: { "${sample}.bam" }

    input:
    tuple val(sample), path(bam), path(index)

    output:
    tuple val(sample), path("passed.bam"), path(index)

    script:
    """
    ln -s $bam passed.bam
    """
}

process CALL {
    publishDir "$params.out/calls", mode: 'copy'

    input:
    tuple val(sample), path(bam), path(index), path(reference)

    output:
    path "${sample}.vcf.gz"

    script:
    """
    bcftools mpileup -f $reference $bam 2> /dev/null | bcftools call -mv -Oz -o ${sample}.vcf.gz
    """
}

process KILLED {
    errorStrategy 'retry'
    maxRetries 2

    output:
    path 'won.txt'

    script:
    """
    if [ $task.attempt = 1 ]; then
        echo half > won.txt
        at=\$\$
        while [ "\$(ps -o comm= \$at)" = bash ]; do top=\$at; at=\$(ps -o ppid= \$at | tr -d ' '); done
        kill -9 \$top
        exit 1
    fi
    echo $task.attempt > won.txt
    """
}

process SUMMARY {
    publishDir params.out, mode: 'copy'

    input:
    path calls
    path won

    output:
    path 'summary.txt'

    script:
    """
    count-calls.sh $calls > summary.txt
    cat $won >> summary.txt
    """
}

workflow {
    reference = file(params.reference)
    samples = Channel.of(1..(params.samples as int)).map { "s$it".toString() }
    reads = READS(samples.map { tuple(it, reference) })
    trimmed = TRIM(reads)
    QUANTIFY(trimmed, INDEX(reference))
    aligned = ALIGN(trimmed.map { sample, files -> tuple(sample, files, reference) })
    calls = CALL(PASS(aligned).map { sample, bam, index -> tuple(sample, bam, index, reference) })
    SUMMARY(calls.collect(), KILLED())
}
