// Tasks that a cluster starts by three at a time, as one job with a number for each; a file and a link as outputs.

process TAKE {
    array 3
    publishDir params.out, mode: 'copy'

    input:
    tuple val(number), path(reference)

    output:
    path "${number}.txt"
    path "${number}.link"

    script:
    """
    echo this is $number
    head -c $number $reference > ${number}.txt
    ln -s $reference ${number}.link
    """
}

workflow {
    reference = file(params.reference)
    TAKE(Channel.of(1..(params.samples as int)).map { tuple(it, reference) })
}
