# shellcheck shell=bash
# Part "bench": the monitors that infprof is measured beside.

# These packages are unpacked, not installed: installing them would start a service and change what runs at boot.
bench_packages=(sysstat prometheus-node-exporter)
bench_root=$deps/bench/root
psrecord=$deps/bench/venv

download_monitors() { (cd "$temp" && quiet monitors apt-get -o APT::Sandbox::User=root download "${bench_packages[@]}"); }

monitors_are_ready() { stamp_is "$bench_root/.stamp" "${bench_packages[*]}"; }
install_monitors() {
        local deb
        temp_dir
        download_monitors || { ((EUID == 0)) && apt_get update && download_monitors; } || return 1
        for deb in "$temp"/*.deb; do
                dpkg-deb -x "$deb" "$temp/root" || return 1
        done
        stamp_set "$temp/root/.stamp" "${bench_packages[*]}"
        replace "$temp/root" "$bench_root"
        item_paths=("$bench_root")
}

# Austin 4.0.0 wants a newer libc than Debian 12 has: it runs by the one that part "pythons" has unpacked, where that is there.
wrap_austin() {
        local root=$deps/pythons/sid/usr
        "$psrecord/bin/austin" --version >/dev/null 2>&1 && return
        [[ -e $root/lib64/ld-linux-x86-64.so.2 ]] || return 0
        mv "$psrecord/bin/austin" "$psrecord/bin/austin.real"
        printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "$root/lib64/ld-linux-x86-64.so.2" "$root/lib/x86_64-linux-gnu" \
                "$psrecord/bin/austin.real" >"$psrecord/bin/austin"
        chmod +x "$psrecord/bin/austin"
}

psrecord_is_ready() { [[ -x $psrecord/bin/python ]] && stamp_is "$psrecord/.stamp" "$(<"$here/requirements-bench.txt")"; }
install_psrecord() {
        rm -rf -- "$psrecord"
        quiet psrecord /usr/bin/python3 -m venv "$psrecord" || return 1
        quiet psrecord "$psrecord/bin/pip" install --disable-pip-version-check --no-input -r "$here/requirements-bench.txt" || return 1
        wrap_austin
        stamp_set "$psrecord/.stamp" "$(<"$here/requirements-bench.txt")"
        item_paths=("$psrecord")
}

setup_bench() {
        install_item "pidstat, node_exporter" "measured beside infprof; unpacked in .deps, no service is started" \
                monitors_are_ready install_monitors || die "pidstat and node_exporter could not be fetched (apt-get update, as root, may help)."
        install_item "psrecord, py-spy, Austin, Scalene" "measured beside infprof" psrecord_is_ready install_psrecord ||
                die "psrecord, py-spy, Austin and Scalene could not be installed."
        install_item "a debug build of Python 3.14, of Debian sid" "its frames are read in bench" debug_is_ready install_debug ||
                say "    not there: bench does without it"
        install_item "PyTorch 2 of Debian 13" "its modules are profiled; 0.2 GB to fetch" torch_is_ready install_torch ||
                say "    not there: bench does without it"
        setup_free
}
