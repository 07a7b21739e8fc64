#!/usr/bin/env bash
# Proves that a machine with nothing but a minimal Debian can do what README.md promises: makes one in a folder, clones the last
# commit into it, and runs a command there, for example `./x build`. What is missing in tools/packages.txt shows at once.
#
# usage (as root): tools/fresh_machine.sh FOLDER COMMAND...       SUITE=trixie for another Debian than bookworm
#
# The folder is made if it is not there and kept afterwards, so that a second command finds what the first installed. Packages come
# from the same sources as this machine's, with its certificates and proxy settings, which is all that is copied from it.
set -euo pipefail

[[ $# -ge 2 ]] || { sed -n '5p' "$0" >&2 && exit 2; }
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
machine=$(realpath -m "$1")
suite=${SUITE:-bookworm}
shift

make_machine() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/\?$')
  command -v debootstrap >/dev/null || apt-get install -y debootstrap
  debootstrap --variant=minbase "$suite" "$machine" "$mirror"
  local file
  for file in /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/sources.list.d /etc/ssl /usr/local/share/ca-certificates /etc/pip.conf \
    /etc/resolv.conf; do
    [[ -e $file ]] || continue
    mkdir -p "$machine$(dirname "$file")"
    cp -a "$file" "$machine$(dirname "$file")/"
  done
  # Its sources are this machine's, for its own suite.
  rm -f "$machine/etc/apt/sources.list" "$machine/etc/apt/apt.conf.d/"*hook*
  . /etc/os-release
  sed -i "s/\b$VERSION_CODENAME\b/$suite/g" "$machine/etc/apt/sources.list.d/"*
}

unmount() { umount "$machine/proc" "$machine/dev" 2>/dev/null || true; }

[[ -x $machine/bin/sh ]] || make_machine
rm -rf "$machine/xorbit"
git clone --quiet --no-hardlinks "$repository" "$machine/xorbit"
trap unmount EXIT
mount -t proc proc "$machine/proc"
mount --bind /dev "$machine/dev"
proxies=$(env | grep -iE '^(https?|no)_proxy=' || true)
chroot "$machine" env -i HOME=/ TERM=dumb LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin $proxies \
  bash -c 'cd /xorbit && "$@"' fresh_machine "$@"
