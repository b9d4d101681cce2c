# shellcheck shell=bash
# Of parts "check" and "bench": Pythons that are newer than this Debian's, from Debian sid, unpacked with sid's C library and never installed. Tests start
# them by that library's loader (tests/e2e/pythons.py). Sid moves on, so that a test may meet another micro version than yesterday.

pythons=$deps/pythons/sid
python_versions='3.13 3.14 3.15'
pythons_are_ready() { stamp_is "$deps/pythons/.stamp" "$python_versions"; }

install_pythons() {
        local version wanted=(libc6 libexpat1 zlib1g)
        temp_dir
        lists_of sid "$temp/apt" || return 1
        for version in $python_versions; do # sid forgets the old ones
                apt_apart "$temp/apt" apt-cache show "python$version-minimal" >/dev/null 2>&1 || continue
                wanted+=("python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib")
        done
        unpack_apart "$temp/sid" "${wanted[@]}" || return 1
        replace "$temp/sid" "$pythons"
        stamp_set "$deps/pythons/.stamp" "$python_versions"
        item_paths=("$pythons")
}

# Tests skip what is missing, so that a machine without the mirror is one with fewer tests.
setup_pythons() {
        install_item "Python 3.13 to 3.15 of Debian sid" "frames of newer Pythons are read in tests" pythons_are_ready install_pythons ||
                say "    not there: tests do without them"
}

# Part "bench" adds the debug build of one of them.
debug_python=python3.14-dbg
debug_is_ready() { stamp_is "$pythons/.stamp-debug" "$debug_python"; }
install_debug() {
        [[ -d $pythons ]] || return 1
        temp_dir
        lists_of sid "$temp/apt" && unpack_apart "$temp/sid" "$debug_python" "lib$debug_python" || return 1
        rm -r "$temp/sid/usr/lib/debug"
        cp -r "$temp/sid/." "$pythons"
        stamp_set "$pythons/.stamp-debug" "$debug_python"
}

# No registry has a free-threaded build: part "bench" compiles them, with this machine's compiler and C library.
free_versions='3.13 3.14'
free_is_ready() { stamp_is "$free_threaded/.stamp" "$free_version"; }

# source_of_sid PACKAGE: in $temp/source, the newest of those that sid lists and the mirror has
source_of_sid() {
        local package=$1 version
        lists_of sid "$temp/apt" deb-src || return 1
        for version in $(apt_apart "$temp/apt" apt-cache showsrc "$package" | sed -n 's/^Version: //p' | sort -rV); do
                mkdir "$temp/files" "$temp/source"
                (cd "$temp/files" && apt_apart "$temp/apt" apt-get source --download-only "$package=$version") >"$deps/log/pythons.txt" 2>&1 &&
                        quiet pythons tar -xJf "$temp"/files/*.orig.tar.xz -C "$temp/source" --strip-components=1 && return
                rm -r "$temp/files" "$temp/source"
        done
        return 1
}

# 3 minutes of CPU; optimisation by profiles would take half an hour.
install_free() {
        temp_dir
        source_of_sid "python$free_version" || return 1
        (
                cd "$temp/source"
                quiet free-threaded nice ./configure -q --prefix="$free_threaded/usr" --disable-gil --disable-test-modules --without-ensurepip \
                        --without-static-libpython CFLAGS='-O2 -g1' &&
                        quiet free-threaded nice make -s -j"$(nproc)" &&
                        quiet free-threaded nice make -s install DESTDIR="$temp/root"
        ) || return 1
        stamp_set "$temp/root$free_threaded/.stamp" "$free_version"
        replace "$temp/root$free_threaded" "$free_threaded"
        item_paths=("$free_threaded")
}

# PyTorch 2 for the CPU: Debian 13's, with all that it needs, started by that Debian's loader.
newer_torch=$deps/bench/torch
torch_suite=trixie
torch_is_ready() { stamp_is "$newer_torch/.stamp" "$torch_suite"; }
install_torch() {
        local package
        temp_dir
        lists_of "$torch_suite" "$temp/apt" || return 1
        quiet apt-apart apt_apart "$temp/apt" apt-get install -y --download-only --no-install-recommends python3-torch || return 1
        for package in "$temp"/apt/cache/archives/*.deb; do
                quiet apt-apart dpkg-deb -x "$package" "$temp/torch" || return 1
        done
        stamp_set "$temp/torch/.stamp" "$torch_suite"
        replace "$temp/torch" "$newer_torch"
        item_paths=("$newer_torch")
}

setup_free() {
        local free_version free_threaded
        for free_version in $free_versions; do
                free_threaded=$deps/pythons/free-threaded-$free_version
                install_item "a free-threaded Python $free_version, of Debian sid's source" "it is read in tests; to compile it takes minutes" \
                        free_is_ready install_free || say "    not there: tests do without it"
        done
}
