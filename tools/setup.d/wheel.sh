# shellcheck shell=bash
# Part "wheel": a compiler that links against the libraries of other distributions.

zig_is_ready() { stamp_is "$deps/zig/.stamp" "$(<"$here/requirements-wheel.txt")"; }
install_zig() {
        temp_dir
        quiet zig "$venv/bin/pip" install --disable-pip-version-check --no-input --no-deps --require-hashes \
                -r "$here/requirements-wheel.txt" --target "$temp/zig" || return 1
        stamp_set "$temp/zig/.stamp" "$(<"$here/requirements-wheel.txt")"
        replace "$temp/zig" "$deps/zig"
        item_paths=("$deps/zig")
}

# Debian 11, in which tests install the wheel: what a Python needs, libcurl 7.74 and what that needs, unpacked. Its C library is 2.31.
old_root=$deps/roots/bullseye
old_packages=(libc6 libcrypt1 libexpat1 libffi7 libgcc-s1 libssl1.1 libstdc++6 zlib1g libpython3.9-minimal libpython3.9-stdlib python3.9-minimal
        libcurl4 libbrotli1 libcom-err2 libgcrypt20 libgmp10 libgnutls30 libgpg-error0 libgssapi-krb5-2 libhogweed6 libidn2-0 libk5crypto3 libkeyutils1 libkrb5-3
        libkrb5support0 libldap-2.4-2 libnettle8 libnghttp2-14 libp11-kit0 libpsl5 librtmp1 libsasl2-2 libssh2-1 libtasn1-6 libunistring2)
old_root_is_ready() { stamp_is "$old_root/.stamp" "${old_packages[*]}"; }
install_old_root() {
        temp_dir
        lists_of bullseye "$temp/apt" && unpack_apart "$temp/root" "${old_packages[@]}" || return 1
        mkdir -p "$temp/root"/{proc,tmp,opt,dev}
        stamp_set "$temp/root/.stamp" "${old_packages[*]}"
        replace "$temp/root" "$old_root"
        item_paths=("$old_root")
}

setup_old_root() {
        install_item "Python of Debian 11" "the wheel is installed there in tests" old_root_is_ready install_old_root ||
                say "    not there: tests do without it"
}

# Part "arm": what the wheel for 64-bit Arm is linked with, and headers that differ there: Debian 12's, unpacked; and, for tests, its C library and
# Python, and QEMU, which runs programs of that machine on this one.
arm_root=$deps/roots/arm64
arm_packages=(libcurl4-openssl-dev libdw-dev libelf-dev libiberty-dev libjansson-dev liblzma-dev libpython3.11-dev libxxhash-dev zlib1g-dev
        libc6 libexpat1 libffi8 libgcc-s1 libpython3.11-minimal libpython3.11-stdlib libstdc++6 python3.11-minimal zlib1g)
arm_root_is_ready() { stamp_is "$arm_root/.stamp" "${arm_packages[*]}"; }
install_arm_root() {
        local apart_machine=arm64
        temp_dir
        lists_of bookworm "$temp/apt" && unpack_apart "$temp/root" "${arm_packages[@]}" || return 1
        mkdir -p "$temp/root"/{proc,sys,tmp,opt,dev}
        stamp_set "$temp/root/.stamp" "${arm_packages[*]}"
        replace "$temp/root" "$arm_root"
        item_paths=("$arm_root")
}

qemu=$deps/qemu
qemu_is_ready() { stamp_is "$qemu/.stamp" qemu-user-static; }
install_qemu() {
        temp_dir
        lists_of bookworm "$temp/apt" && unpack_apart "$temp/root" qemu-user-static || return 1
        mkdir "$temp/qemu"
        mv "$temp/root/usr/bin/qemu-aarch64-static" "$temp/root/usr/share/doc/qemu-user-static/copyright" "$temp/qemu" || return 1
        stamp_set "$temp/qemu/.stamp" qemu-user-static
        replace "$temp/qemu" "$qemu"
        item_paths=("$qemu")
}

arm_duckdb=$deps/duckdb-aarch64
arm_duckdb_is_ready() { stamp_is "$arm_duckdb/.stamp" "$duckdb_library_aarch64 $duckdb_header"; }
install_arm_duckdb() { duckdb_unpack "$duckdb_library_aarch64" "$arm_duckdb"; }

setup_arm() {
        setup_wheel
        install_item "libraries of 64-bit Arm" "the wheel for it is linked with them" arm_root_is_ready install_arm_root ||
                die "Debian's packages of 64-bit Arm could not be fetched."
        install_item "DuckDB's library for it" "packed as a wheel of its own" arm_duckdb_is_ready install_arm_duckdb ||
                say "    not there: there will be no such wheel"
        install_item "QEMU's emulator of it" "tests run the wheel by it" qemu_is_ready install_qemu || say "    not there: tests do without it"
}

setup_wheel() {
        install_item "Zig's C compiler" "builds programs that run with the C library of older distributions" zig_is_ready install_zig ||
                die "Zig's C compiler could not be fetched."
}
