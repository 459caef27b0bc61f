# A bucket with names, and a list of inputs one of which is not there.
mc mb --quiet store/lab
printf 'bob\nada\nada\n' | mc pipe --quiet store/lab/reads/names.txt
printf 'reads/names.txt\nreads/none.txt\n' | mc pipe --quiet store/lab/inputs.txt
# What containers are made of is on this machine already, and nothing is asked of a registry.
podman tag localhost/quayfs-it docker.io/library/debian:12
export MINIWDL__PODMAN__EXE='["bash", "-c", "[ $0 = pull ] || exec podman $0 \"$@\""]'
