# A new root folder of a Debian release, and commands in it. Sourced by scripts that are in a mount
# namespace of their own, with $release set. Needs root, debootstrap (tools/install-deps --debootstrap)
# and Debian's mirror (DEBIAN_MIRROR); prints one line that says why and ends the script without them.
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
skip() { echo "debian: skipped: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root can make a root folder of Debian and enter it"
PATH=$PATH:/sbin:/usr/sbin
command -v debootstrap >/dev/null || skip "no program debootstrap (tools/install-deps --debootstrap)"

# Makes the root folder $1, and sets $root to its path.
make_root() {
  root=$1
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  root=$(cd "$root" && pwd)
  # Programs in it may make mount namespaces of their own, which needs a root that is a mount.
  mount --bind "$root" "$root"
  debootstrap --variant=minbase "$release" "$root" "$mirror"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # No service may start here.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
}
remove_root() {
  umount -R "$root"
  rm -rf --one-file-system "$root"
}
# Runs a command in the root folder.
within() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} "$@"
}
