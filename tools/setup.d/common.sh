# shellcheck shell=bash
# What every part of the set-up needs: words, clock, stamps, lock. Sourced by tools/setup, which has set $top and $deps.

say() { printf '%s\n' "$*"; }

die() {
        printf 'setup: %s\n' "$*" >&2
        exit 1
}

now_ms() {
        local now=${EPOCHREALTIME/[.,]/}
        printf '%s' "${now%???}"
}

# since START_MS: the time since then, as "3.2 s"
since() {
        local ms=$(($(now_ms) - $1))
        printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

size_of() { du -sh "$@" 2>/dev/null | awk 'END { print $1 }'; }

# A stamp is a file that says what was installed. It holds the checkout's path too, since a virtual environment cannot be moved.
stamp_text() { printf '%s\n%s' "$top" "$1"; }
stamp_is() { [[ -f $1 && $(<"$1") == "$(stamp_text "$2")" ]]; }
stamp_set() { stamp_text "$2" >"$1"; }

# install_item WHAT WHY IS_READY INSTALL: runs INSTALL unless IS_READY, and prints what, why, how long.
# IS_READY is asked again under the lock, for another set-up may have done the work while this one waited.
install_item() {
        local what=$1 why=$2 is_ready=$3 install=$4 start size
        "$is_ready" && return 0
        take_lock
        "$is_ready" && return 0
        say "  $what: $why"
        start=$(now_ms)
        item_paths=()
        "$install" || return 1
        size=$( ((${#item_paths[@]})) && size_of -c "${item_paths[@]}")
        say "    done: ${size:+$size on disk, }$(since "$start")"
}

# One set-up at a time may write to .deps. Taken once, held until this process ends.
take_lock() {
        [[ -n ${lock_fd:-} ]] && return 0
        mkdir -p "$deps/log"
        exec {lock_fd}>"$deps/lock"
        flock -n "$lock_fd" && return 0
        say "  waiting for another set-up in this checkout"
        flock "$lock_fd"
}

# temp_dir: sets $temp to an empty folder on the file system of .deps, so that what is ready can be renamed into place
temp_dir() {
        temp=$(mktemp -d "$deps/tmp.XXXXXX")
        temps+=("$temp")
}

remove_temps() {
        ((${#temps[@]} == 0)) || rm -rf -- "${temps[@]}"
}

# replace NEW OLD: puts NEW in the place of OLD
replace() {
        rm -rf -- "$2"
        mkdir -p -- "$(dirname -- "$2")"
        mv -- "$1" "$2"
}

# quiet LABEL COMMAND...: runs COMMAND with its output in a log, and shows the end of it when the command fails
quiet() {
        local log=$deps/log/$1.txt
        shift
        "$@" >"$log" 2>&1 </dev/null && return 0
        say "    failed: $*" >&2
        tail -n 15 "$log" | sed 's/^/    | /' >&2
        return 1
}
