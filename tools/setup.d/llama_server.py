#!/usr/bin/python3
"""llama.cpp's own HTTP server, from a Python package that holds it as a library, with the flags of llama-server that the demo uses.

tools/setup puts it as `llama-server` beside that package. The server, its threads and its pages are llama.cpp's; Python only starts
it. The package is built for AVX2, which all x86-64 CPUs of the last ten years have, where llama-server's own package needs more.
"""
import argparse
import os
import signal
import sys

import xllamacpp


def parse_arguments():
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("-t", "--threads", type=int, default=-1)
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("-c", "--ctx-size", type=int, default=0)
    parser.add_argument("--no-webui", action="store_true")
    return parser.parse_args()


def server_parameters(arguments):
    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.model
    parameters.hostnames = [arguments.host]
    parameters.port = arguments.port
    parameters.endpoint_metrics = arguments.metrics
    parameters.endpoint_slots = arguments.slots
    parameters.cpuparams.n_threads = arguments.threads
    parameters.cpuparams_batch.n_threads = arguments.threads
    parameters.n_parallel = arguments.parallel
    parameters.n_ctx = arguments.ctx_size
    parameters.ui = not arguments.no_webui
    return parameters


def main():
    parameters = server_parameters(parse_arguments())
    # While the model is loaded nothing of Python runs: SIGTERM then ends the process as it ends any other.
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:  # of the library: whatever it is, there is no server
        sys.exit(f"llama-server: {error}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.pause()
    del server
    # Nothing is left to write, and the library's own end may wait for threads that are gone.
    os._exit(0)


main()
