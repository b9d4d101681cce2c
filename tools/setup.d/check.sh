# shellcheck shell=bash
# Part "check": pytest and the readers that must open our files, a locale that writes 0,5 for 0.5, and Speedscope.

readers_are_ready() { python_has check; }
install_readers() {
        item_paths=("$venv"/lib/python3*/site-packages)
        python_install check
}

locale=$deps/locale/de_DE.UTF-8
locale_is_ready() { [[ -f $locale/LC_NUMERIC ]]; }
install_locale() {
        temp_dir
        quiet locale localedef -i de_DE -f UTF-8 "$temp/de_DE.UTF-8" || return 1
        replace "$temp/de_DE.UTF-8" "$locale"
        item_paths=("$locale")
}

# Its page runs in Chromium and reads our files as it would for a user.
speedscope='speedscope@1.25.0 sha512-cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag=='
speedscope_is_ready() { stamp_is "$deps/speedscope/.stamp" "$speedscope"; }
install_speedscope() {
        npm_is_ready || python_install npm || return 1
        temp_dir
        npm_pack "$speedscope" "$temp/package" package/dist package/LICENSE || return 1
        mv "$temp/package/package/dist/release" "$temp/speedscope" && mv "$temp/package/package/LICENSE" "$temp/speedscope" || return 1
        stamp_set "$temp/speedscope/.stamp" "$speedscope"
        replace "$temp/speedscope" "$deps/speedscope"
        item_paths=("$deps/speedscope")
}

setup_check() {
        install_item "pytest, pyarrow, polars, pandas, DuckDB" "end-to-end tests read our files with them" \
                readers_are_ready install_readers || die "the Python packages of the tests could not be installed."
        install_item "German locale" "tests that no number is written with a comma" locale_is_ready install_locale ||
                die "the German locale could not be made."
        install_item "Speedscope" "opens our profiles in tests" speedscope_is_ready install_speedscope ||
                die "Speedscope could not be fetched."
        setup_pythons
        setup_wheel
        setup_old_root
}
