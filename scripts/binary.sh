# shellcheck shell=bash
# Facts about a quayfs binary and tools for its processor, for other scripts to source.
#
# A binary for another processor runs through QEMU.

# machine_of BINARY: its processor, in the words of `uname -m`.
machine_of() {
    case $(readelf -h "$1" | sed -n 's/^ *Machine: *//p') in
    *X86-64) echo x86_64 ;;
    AArch64) echo aarch64 ;;
    *) echo "$1 is for a processor that quayfs is not packaged for" >&2; return 1 ;;
    esac
}

# deb_architecture MACHINE: the name that Debian and container images have for it.
deb_architecture() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    esac
}

# target_of BINARY: its Rust target. A static binary is linked with musl.
target_of() {
    if is_static "$1"; then
        echo "$(machine_of "$1")-unknown-linux-musl"
    else
        echo "$(machine_of "$1")-unknown-linux-gnu"
    fi
}

is_static() { ! readelf -d "$1" | grep -q '(NEEDED)'; }

# run BINARY ARGUMENT...
run() {
    local machine
    machine=$(machine_of "$1")
    if [ "$machine" = "$(uname -m)" ]; then
        "$@"
    else
        "qemu-$machine-static" "$@"
    fi
}

# version_of BINARY: the version that it reports, so that a package and its program agree.
version_of() { run "$1" --version | sed 's/^quayfs //'; }

# package_version VERSION: the form that dpkg and rpm sort before the release that it leads to.
package_version() { echo "${1/-/\~}"; }

# binutil NAME MACHINE: the program of binutils for that processor.
binutil() {
    if [ "$2" = "$(uname -m)" ]; then
        echo "$1"
    else
        echo "$2-linux-gnu-$1"
    fi
}

# strip_binary BINARY OUT: a copy without symbols. A link to separate debug information stays.
strip_binary() {
    "$(binutil strip "$(machine_of "$1")")" --strip-all -o "$2" "$1"
    chmod 755 "$2"
}

# split_debug BINARY OUT DEBUG: a stripped copy and the debug information taken from it.
# OUT names DEBUG with a checksum, by which a debugger finds it.
split_debug() {
    local objcopy
    objcopy=$(binutil objcopy "$(machine_of "$1")")
    "$objcopy" --only-keep-debug "$1" "$3"
    chmod 644 "$3"
    strip_binary "$1" "$2"
    "$objcopy" --add-gnu-debuglink="$3" "$2"
}

# The time of everything in a package: that of the newest commit, unless the caller sets another.
set_source_date() {
    export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
}

# The same archive for the same files: archive FOLDER NAME, to the standard output.
archive() {
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -c "$2"
}

maintainer() { echo "${DEBFULLNAME:-The quayfs project} <${DEBEMAIL:-quayfs@localhost}>"; }
