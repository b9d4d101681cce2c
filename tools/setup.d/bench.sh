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

psrecord_is_ready() { [[ -x $psrecord/bin/python ]] && stamp_is "$psrecord/.stamp" "$(<"$here/requirements-bench.txt")"; }
install_psrecord() {
        rm -rf -- "$psrecord"
        quiet psrecord /usr/bin/python3 -m venv "$psrecord" || return 1
        quiet psrecord "$psrecord/bin/pip" install --disable-pip-version-check --no-input -r "$here/requirements-bench.txt" || return 1
        stamp_set "$psrecord/.stamp" "$(<"$here/requirements-bench.txt")"
        item_paths=("$psrecord")
}

setup_bench() {
        install_item "pidstat, node_exporter" "measured beside infprof; unpacked in .deps, no service is started" \
                monitors_are_ready install_monitors || die "pidstat and node_exporter could not be fetched (apt-get update, as root, may help)."
        install_item "psrecord, py-spy" "measured beside infprof" psrecord_is_ready install_psrecord ||
                die "psrecord and py-spy could not be installed."
}
