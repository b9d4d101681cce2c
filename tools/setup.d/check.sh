# shellcheck shell=bash
# Part "check": pytest and the readers that must open our files, and a locale that writes 0,5 for 0.5.

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

setup_check() {
        install_item "pytest, pyarrow, polars, pandas, DuckDB" "end-to-end tests read our files with them" \
                readers_are_ready install_readers || die "the Python packages of the tests could not be installed."
        install_item "German locale" "tests that no number is written with a comma" locale_is_ready install_locale ||
                die "the German locale could not be made."
}
