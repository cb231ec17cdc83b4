# What the tests of whole systems have in common: steps that pass or fail, a folder to work in, a
# Debian system in it, and HAKMEM's packages built there. Sourced; the caller sets $source, the top
# of the source, first.
#
#   begin KEEP BASE         checks for root, makes $work (KEEP, or a temporary folder) and $root in it
#   make_root               unpacks a minimal Debian into $root and mounts what programs need
#   inside COMMAND...       runs a command in $root
#   build_in_root           makes $root build the last commit's packages, with its tests, into $debs
#   say, pass, fail, skip   what happens, and what came of it; step NAME COMMAND... is both
#
# At the end everything is unmounted and removed, unless KEEP, and the last line says "N passed, N failed".
passed=0 failed=0 skipped=0
started=$(date +%s)
say() { echo "== $(($(date +%s) - started)) s: $*"; }
pass() { passed=$((passed + 1)); echo "ok $*"; }
fail() { failed=$((failed + 1)); echo "FAILED $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped $*"; }

# The log is of interest only if something fails.
step() {
	step_name=$1
	shift
	say "$step_name"
	if "$@" >"$work/step.log" 2>&1 </dev/null
	then pass "$step_name"
	else fail "$step_name"; tail -n "${show_lines:-30}" "$work/step.log"; return 1; fi
}

usage() { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p;}' "$0"; }
wrong_usage() { usage >&2; exit 2; }

unmount() {
	for place in srv/machine/proc dev/pts dev/shm dev sys proc; do
		! mountpoint -q "$root/$place" || umount -l "$root/$place"
	done
}
finish() {
	finish_status=$?
	trap - EXIT
	[ "$finish_status" -lt 2 ] || [ "$failed" -gt 0 ] || fail 'the test itself broke off'
	unmount
	[ -n "$keep" ] || rm -rf --one-file-system "$work"
	say 'the end'
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
}

# What the host needs: COMMAND:PACKAGE...
need_on_host() {
	. "$source/bench/install.sh"
	for wanted; do need "${wanted%%:*}" "${wanted#*:}" "${wanted#*:}"; done
	install_needed >"$work/install-host.log" 2>&1 || { fail 'installing packages'; tail "$work/install-host.log"; exit; }
}

begin() {
	[ "$(id -u)" -eq 0 ] || { echo "$0: takes root" >&2; exit 2; }
	keep=$1 base=$2
	if [ -n "$keep" ]; then
		mkdir -p "$keep" && work=$(realpath "$keep") || exit 2
		# What lies in it is replaced: nobody's own folder.
		[ -e "$work/.hakmem-test" ] || [ -z "$(ls -A "$work")" ] ||
			{ echo "$0: $keep: is neither empty nor of an earlier test" >&2; exit 2; }
		: >"$work/.hakmem-test"
	else
		work=$(mktemp -d)
	fi
	chmod 0755 "$work"
	root=$work/root
	trap finish EXIT
	trap 'fail interrupted; exit' HUP INT TERM
	need_on_host mmdebstrap:mmdebstrap git:git mountpoint:util-linux
	commit=$(git -c safe.directory='*' -C "$source" rev-parse HEAD) || exit
}

inside() {
	chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive TERM=dumb "$@"
}

as_builder() { inside setpriv --reuid builder --regid builder --init-groups env HOME=/build "$@"; }

install_inside() { inside apt-get -q -y --no-install-recommends install "$@"; }

fetch_base() {
	base=$work/base.tar
	mmdebstrap --variant=apt bookworm "$base"
}

unpack_base() {
	unmount
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	tar -x -f "$base" -C "$root" || return 1
	mount -t proc proc "$root/proc" && mount --bind /sys "$root/sys" && mount --bind /dev "$root/dev" &&
		mount --make-private "$root/dev" && # else what is mounted in it comes up in the host's, too
		mkdir -p "$root/dev/shm" && mount -t tmpfs -o mode=1777 shm "$root/dev/shm" &&
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" || return 1
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
	cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
	for setting in /etc/apt/apt.conf.d/*proxy*; do
		[ ! -e "$setting" ] || cp "$setting" "$root/etc/apt/apt.conf.d/"
	done
	inside apt-get -q update
}

make_root() {
	[ -n "$base" ] || step 'a minimal Debian is fetched' fetch_base || exit
	step 'a Debian system is made of it' unpack_base || exit
}

# ---- HAKMEM's packages ----

# The commit that was the last when the test began.
archive_source() { git -c safe.directory='*' -C "$source" archive "$commit"; }

# As a user other than root will build it.
export_source() {
	inside useradd --create-home --home-dir /build builder &&
		install -d "$root/build/hakmem" &&
		archive_source | tar -x -C "$root/build/hakmem" &&
		inside chown -R builder:builder /build
}

# What a package builder has, and what debian/control asks for; not more.
install_build_needs() {
	install_inside dpkg-dev fakeroot &&
		(cd "$root" && inside sh -c 'cd /build/hakmem && apt-get -q -y --no-install-recommends build-dep ./')
}

build_packages() { as_builder sh -c "cd /build/hakmem && $*"; }

build_in_root() {
	step 'the source is taken' export_source &&
		step 'what the packages need to be built is installed' install_build_needs &&
		step 'the Debian packages are built, and tested' \
			build_packages 'dpkg-buildpackage -us -uc >../build.log 2>&1 || { grep -A 20 -E "FAIL|TIMEOUT" ../build.log; tail -n 30 ../build.log; exit 1; }' ||
		exit
	debs=$work/debs
	rm -rf "$debs"
	mkdir -p "$debs"
	cp "$root"/build/*.deb "$debs"
}

# renumber_packages VERSION DIR: as another version in $root's DIR, the library's file renamed as a release would.
renumber_packages() {
	mkdir -p "$root$2"
	for deb in "$debs"/libhakmem1_*.deb "$debs"/hakmem_*.deb "$debs"/hakmem-preload_*.deb; do
		rm -rf "$work/unpacked"
		dpkg-deb -R "$deb" "$work/unpacked"
		old=$(sed -n 's/^Version: //p' "$work/unpacked/DEBIAN/control")
		sed -i "s/^Version: .*/Version: $1/; s/(= $old)/(= $1)/g" "$work/unpacked/DEBIAN/control"
		for file in "$work"/unpacked/usr/lib/*/libhakmem.so.1.*; do
			[ -e "$file" ] || continue
			mv "$file" "${file%/*}/libhakmem.so.$1"
			ln -sf "libhakmem.so.$1" "${file%/*}/libhakmem.so.1"
			rm "$work/unpacked/DEBIAN/md5sums"
		done
		dpkg-deb -b "$work/unpacked" "$root$2" >/dev/null
	done
}

# repository DIR DEBS: a local one.
repository() {
	mkdir -p "$root$1"
	cp "$2"/*.deb "$root$1"
	(inside sh -c 'command -v apt-ftparchive' || install_inside apt-utils) &&
		inside sh -c "cd '$1' && apt-ftparchive packages . >Packages && apt-ftparchive release . >Release"
}

use_repository() {
	repository "$1" "$2" &&
		echo "deb [trusted=yes] file:$1 ./" >"$root/etc/apt/sources.list.d/hakmem.list" &&
		inside apt-get -q update
}
