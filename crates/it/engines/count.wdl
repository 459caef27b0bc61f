version 1.0

# Counts the lines of each file, in a container, and adds them up.
workflow count {
    input {
        Array[File] reads
    }
    scatter (file in reads) {
        call lines { input: file = file }
    }
    call add { input: counts = lines.count }
    output {
        File total = add.total
    }
}

task lines {
    input {
        File file
    }
    command <<<
        wc -l < ~{file} > count.txt
    >>>
    output {
        File count = "count.txt"
    }
    runtime {
        docker: "localhost/quayfs-it"
    }
}

task add {
    input {
        Array[File] counts
    }
    command <<<
        cat ~{sep=" " counts} | awk '{ sum += $1 } END { print sum }' > total.txt
    >>>
    output {
        File total = "total.txt"
    }
    runtime {
        docker: "localhost/quayfs-it"
    }
}
