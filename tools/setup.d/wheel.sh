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

setup_wheel() {
        install_item "Zig's C compiler" "builds programs that run with the C library of older distributions" zig_is_ready install_zig ||
                die "Zig's C compiler could not be fetched."
}
