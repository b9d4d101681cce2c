# shellcheck shell=bash
# Debian packages: those of packages.txt that the wanted parts need and the machine lacks.

# missing_packages PART...: sets $missing to the lines "package what for" that are not installed
missing_packages() {
        local wanted part package why installed
        installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' 2>/dev/null || true)"
        wanted=" $* "
        missing=()
        while read -r part package why; do
                [[ -z $part || $part == \#* || $wanted != *" $part "* ]] && continue
                [[ $installed == *" installed:$package "* ]] || missing+=("$package $why")
        done <"$here/packages.txt"
}

# install_packages PART...: as root installs them, as anybody else says the line that does
install_packages() {
        local names=() line start
        command -v dpkg-query >/dev/null || die "this is not Debian; install what tools/setup.d/packages.txt lists by hand"
        missing_packages "$@"
        ((${#missing[@]})) || return 0
        for line in "${missing[@]}"; do
                [[ " ${names[*]} " == *" ${line%% *} "* ]] || names+=("${line%% *}")
        done
        if ((EUID != 0)); then
                say "These Debian packages are missing, and only root can install them. Run this line, then the same command again:"
                say "$(apt_has_lists || printf 'sudo apt-get update && ')sudo apt-get install -y --no-install-recommends ${names[*]}"
                exit 1
        fi
        say "  Debian packages:"
        for line in "${missing[@]}"; do
                printf '    %-20s %s\n' "${line%% *}" "${line#* }"
        done
        start=$(now_ms)
        take_lock
        apt_get update || die "apt-get update failed: is there a network?"
        apt_get install -y --no-install-recommends "${names[@]}" || die "apt-get could not install: ${names[*]}"
        say "    done: $(apt_size), $(since "$start")"
}

apt_has_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# Another apt may be at work on the machine: dpkg's own lock waits, the one of the package lists does not, so try again.
apt_get() {
        local try
        for try in 1 2 3 4 5; do
                DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@" >"$deps/log/apt.txt" 2>&1 </dev/null && return 0
                grep -q 'Could not get lock' "$deps/log/apt.txt" || break
                sleep $((try * 5))
        done
        tail -n 15 "$deps/log/apt.txt" | sed 's/^/    | /' >&2
        return 1
}

# What apt-get install itself said of the amount, for instance "38.2 MB fetched, 152 MB on disk".
apt_size() {
        sed -nE 's/^Need to get (.*) of archives\.$/\1 fetched/p; s/^After this operation, (.*) of additional.*/\1 on disk/p' \
                "$deps/log/apt.txt" | sed 's|/.* MB fetched| MB fetched|' | paste -sd, | sed 's/,/, /'
}

# apt_apart FOLDER COMMAND...: apt with lists, state and downloads of its own; the machine's are neither read nor changed. $apart_machine:
# of which machine the packages are (arm64), where that is not this one
apt_apart() {
        local folder=$1 command=$2 machine=()
        shift 2
        [[ -z ${apart_machine:-} ]] || machine=(-o APT::Architecture="$apart_machine" -o APT::Architectures::="$apart_machine")
        "$command" -q "${machine[@]}" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/sources" -o Dir::State="$folder/state" \
                -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" -o APT::Sandbox::User= \
                -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Retries=2 "$@"
}

# lists_of SUITE FOLDER [TYPE]: of packages, or (deb-src) of sources. The machine's own mirror has other suites, too.
lists_of() {
        local suite=$1 folder=$2 type=${3:-deb} mirror
        mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
                awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ { print $3; exit }')
        [[ -n $mirror ]] || return 1
        mkdir -p "$folder"/{sources,state/lists/partial,cache/archives/partial}
        : >"$folder/status"
        printf '%s\n' "Types: $type" "URIs: $mirror" "Suites: $suite" 'Components: main' \
                'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' >"$folder/sources/$suite.sources"
        quiet apt-apart apt_apart "$folder" apt-get update
}

# unpack_apart FOLDER PACKAGE...: the files of packages, from the lists in $temp/apt, in FOLDER
unpack_apart() {
        local folder=$1 package
        shift
        mkdir "$temp/files"
        (cd "$temp/files" && quiet apt-apart apt_apart "$temp/apt" apt-get download "$@") || return 1
        for package in "$temp"/files/*.deb; do
                quiet apt-apart dpkg-deb -x "$package" "$folder" || return 1
        done
}
