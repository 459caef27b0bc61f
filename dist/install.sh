#!/bin/sh
# Installs quayfs from the files of a release, and removes it again.
#
#   sh install.sh URL                   installs the release whose files are in the folder URL
#   sh install.sh --uninstall           removes what an earlier run with the same PREFIX installed
#
# PREFIX is where: /usr/local for root, ~/.local for another user, who needs no rights. URL contains SHA256SUMS and the
# archives of all processors; the archive for this machine is installed only when its checksum is right. Needs tar and
# curl or wget. The checksums come from the same place as the archive: use an https address that you trust.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

if [ "$(id -u)" = 0 ]; then default=/usr/local; else default=$HOME/.local; fi
prefix=${PREFIX:-$default}
case $prefix in /*) ;; *) fail "PREFIX must be an absolute path: $prefix" ;; esac
manifest=$prefix/share/quayfs/installed-files

uninstall() {
    [ -f "$manifest" ] || fail "nothing to remove: $manifest is missing"
    while IFS= read -r path; do rm -f "$path"; done <"$manifest"
    rm -f "$manifest"
    # Folders that only quayfs had. Others stay, since they are not empty or have another owner's files to come.
    find "$prefix/share/doc/quayfs" -depth -type d -exec rmdir {} + 2>/dev/null || true
    rmdir "$prefix/share/quayfs" 2>/dev/null || true
    echo "removed quayfs from $prefix; its state folders are left alone"
}

case ${1:-} in
--uninstall)
    uninstall
    exit
    ;;
'' | -*) fail 'usage: sh install.sh URL | --uninstall' ;;
esac
url=${1%/}

[ "$(uname -s)" = Linux ] || fail "quayfs runs on Linux, not on $(uname -s)"
case $(uname -m) in
x86_64 | amd64) machine=x86_64 ;;
aarch64 | arm64) machine=aarch64 ;;
*) fail "no release is made for the processor $(uname -m); build it from source" ;;
esac

# download ADDRESS FILE
download() {
    if has curl; then
        curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"
    elif has wget; then
        wget --quiet --output-document="$2" "$1"
    else
        fail 'needs curl or wget'
    fi || fail "cannot download $1"
}

checksum_of() {
    if has sha256sum; then
        sha256sum "$1"
    elif has shasum; then
        shasum -a 256 "$1"
    else
        fail 'needs sha256sum or shasum'
    fi | cut -d' ' -f1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

download "$url/SHA256SUMS" "$work/SHA256SUMS"
# A line for one archive of this processor: checksum, two characters, name.
line=$(grep -E "^[0-9a-f]{64} [ *]quayfs-[0-9A-Za-z.+-]+-$machine-linux\.tar\.gz\$" "$work/SHA256SUMS") ||
    fail "$url/SHA256SUMS lists no archive for $machine"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$url/SHA256SUMS lists several archives for $machine"
wanted=${line%% *}
archive=${line#*quayfs-}
archive=quayfs-$archive
name=${archive%.tar.gz}

download "$url/$archive" "$work/$archive"
found=$(checksum_of "$work/$archive")
[ "$found" = "$wanted" ] || fail "$archive is not the file that was released: its SHA-256 is $found, not $wanted"
tar -xzf "$work/$archive" -C "$work" || fail "cannot unpack $archive"
from=$work/$name/usr
"$from/bin/quayfs" --version >/dev/null || fail 'the program does not run on this machine'

# put FILE PATH: installs a file or link by a rename, so that a running mount keeps the program that it has.
put() {
    mkdir -p "${2%/*}" || fail "cannot write to ${2%/*}: set PREFIX, or run this as root"
    rm -f "$2.new"
    cp -P "$1" "$2.new" || fail "cannot write $2: set PREFIX, or run this as root"
    mv -f "$2.new" "$2"
    printf '%s\n' "$2" >>"$work/installed"
}

# put_tree FOLDER DESTINATION: the files below FOLDER, at the same places below DESTINATION.
put_tree() {
    [ -d "$from/$1" ] || return 0
    (cd "$from/$1" && find . -type f -o -type l) | sort >"$work/list"
    while IFS= read -r path; do put "$from/$1/$path" "$2/${path#./}"; done <"$work/list"
}

: >"$work/installed"
put "$from/bin/quayfs" "$prefix/bin/quayfs"
put_tree share/man "$prefix/share/man"
put_tree share/doc/quayfs "$prefix/share/doc/quayfs"
put_tree share/bash-completion "$prefix/share/bash-completion"
put_tree share/zsh/vendor-completions "$prefix/share/zsh/site-functions"
put_tree share/fish "$prefix/share/fish"
put_tree lib/systemd/user "$prefix/share/systemd/user"
if [ "$prefix" = /usr/local ]; then
    put_tree lib/systemd/system /usr/local/lib/systemd/system
    # mount(8) and umount(8) look only here.
    for helper in mount.quayfs mount.fuse.quayfs umount.fuse.quayfs; do
        ln -s /usr/local/bin/quayfs "$work/$helper"
        put "$work/$helper" "/sbin/$helper"
    done
fi
# What an earlier version had and this one has not.
if [ -f "$manifest" ]; then
    while IFS= read -r path; do
        grep -qxF "$path" "$work/installed" || rm -f "$path"
    done <"$manifest"
fi
mkdir -p "${manifest%/*}"
cp "$work/installed" "$manifest"

echo "installed $("$prefix/bin/quayfs" --version) in $prefix"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "add $prefix/bin to PATH to call it by its name" ;;
esac
if [ "$(id -u)" != 0 ] && ! has fusermount3; then
    echo 'to mount as an ordinary user, install the package fuse3 of your distribution'
fi
