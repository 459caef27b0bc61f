# A bucket with names.
mc mb --quiet store/lab
printf 'bob\nada\nada\n' | mc pipe --quiet store/lab/reads/names.txt
