#!/bin/sh
# Installs what the tests need: cmocka, xz, binutils; valgrind (for the
# instruction counts of `make bench`) and tmux (for golden screens) where they
# can be had. Needs root or sudo, and only when something is missing. Debian's
# prometheus, which checks and scrapes our metrics, is unpacked into build/deps
# and not installed: there it would run as a service. Tests also use groff, zsh,
# fish, gcc-aarch64-linux-gnu and qemu-user if they are there. A compiler, make, python3 and the CUDA headers are expected to be
# there already.
set -eu

CC=${CC:-cc}

has_cmocka() {
	# Into a file of its own: for root, a linker may put it in a device's place.
	place=$(mktemp -d)
	linked=no
	printf '%s\n' '#include <stdarg.h>' '#include <stddef.h>' \
		'#include <setjmp.h>' '#include <stdint.h>' \
		'#include <cmocka.h>' 'int main(void) { return 0; }' |
		"$CC" -x c - -lcmocka -o "$place/linked" 2>/dev/null &&
		linked=yes
	rm -rf "$place"
	[ $linked = yes ]
}

has() {
	command -v "$1" >/dev/null 2>&1
}

need=
has_cmocka || need="$need libcmocka-dev"
has xz || need="$need xz-utils"
has readelf || need="$need binutils"
want=
has valgrind || want=valgrind
has tmux || want="$want tmux"

if ! has python3; then
	echo 'gpupool: python3 is missing; please install it' >&2
	exit 1
fi

# Without lists of packages there is nothing to download.
download() {
	apt-get -qq download "$1" ||
		{ [ "$(id -u)" = 0 ] && apt-get -qq update &&
			apt-get -qq download "$1"; }
}

fetch_prometheus() {
	place=$(mktemp -d) && mkdir -p build/deps || return
	(cd "$place" && download prometheus) >/dev/null 2>&1 &&
		dpkg-deb -x "$place"/prometheus_*.deb build/deps
	status=$?
	rm -rf "$place"
	return $status
}

if has apt-get && ! has promtool && ! [ -x build/deps/usr/bin/promtool ]; then
	fetch_prometheus ||
		echo 'gpupool: no prometheus: two tests are left out'
fi
if [ -z "$need$want" ]; then
	exit 0
fi
if ! has apt-get; then
	if [ -z "$need" ]; then
		exit 0
	fi
	echo "gpupool: the tests need$need (Debian's names);" \
		'this system has no apt-get, so please install them by hand' >&2
	exit 1
fi

if [ "$(id -u)" = 0 ]; then
	root=
elif has sudo; then
	root='sudo -n'
else
	if [ -z "$need" ]; then
		exit 0
	fi
	echo "gpupool: run as root: apt-get install$need" >&2
	exit 1
fi

# Words are meant to split below: $root is a prefix, $need a list.
apt() {
	$root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
		-o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 "$@" >/dev/null
}

if [ -n "$need" ]; then
	apt update || true # a broken extra source must not stop us
	if ! apt install -y --no-install-recommends $need; then
		echo "gpupool: apt-get could not install$need" >&2
		exit 1
	fi
fi
if [ -n "$want" ]; then
	apt install -y --no-install-recommends $want 2>/dev/null ||
		echo "gpupool: no $want: some tests and counts are left out"
fi
