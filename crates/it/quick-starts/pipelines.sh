# A bucket with names, and a list of inputs one of which is not there.
mc mb --quiet store/lab
printf 'bob\nada\nada\n' | mc pipe --quiet store/lab/reads/names.txt
printf 'reads/names.txt\nreads/none.txt\n' | mc pipe --quiet store/lab/inputs.txt
