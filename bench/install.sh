# Installs packages that are missing, with apt or dnf; sourced by bench/run and tests/run.
#
#   need WHAT DEBIAN FEDORA   asks for a package unless WHAT is there: a command, or, with a slash in
#                             it, file patterns separated by spaces
#   install_needed            installs what was asked for; 1 if not all of it could be
#
# Asks for a password only if sudo does.
wanted_debian=
wanted_fedora=

is_there() {
	case $1 in
	*/*)
		# shellcheck disable=SC2086 # patterns
		for is_there_file in $1; do
			[ ! -e "$is_there_file" ] || return 0
		done
		return 1
		;;
	*) command -v "$1" >/dev/null ;;
	esac
}

need() {
	if ! is_there "$1"; then
		wanted_debian="$wanted_debian $2"
		wanted_fedora="$wanted_fedora $3"
	fi
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		echo "neither root nor sudo: cannot run $*" >&2
		return 1
	fi
}

# The package lists are fetched once, when the first package is missing.
install_debian() {
	if [ -z "${lists_fetched:-}" ]; then
		lists_fetched=1
		as_root apt-get -q -o DPkg::Lock::Timeout=300 update || echo "not all lists are new" >&2
	fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
}

install_fedora() {
	as_root dnf -q -y --setopt=install_weak_deps=False install "$@"
}

install_needed() {
	if command -v apt-get >/dev/null; then
		install=install_debian packages=$wanted_debian
	elif command -v dnf >/dev/null; then
		install=install_fedora packages=$wanted_fedora
	else
		install=false packages=$wanted_debian
	fi
	wanted_debian= wanted_fedora=
	[ -n "$packages" ] || return 0
	echo "installing:$packages"
	# shellcheck disable=SC2086 # a list
	$install $packages </dev/null && return
	# One that does not exist must not keep back the others.
	not_installed=
	for package in $packages; do
		$install "$package" </dev/null || not_installed="$not_installed $package"
	done
	[ -z "$not_installed" ] || { echo "could not install:$not_installed" >&2; return 1; }
}
