"""Runs llama-server (PyPI xllamacpp) in the foreground and prints "ready" once it is healthy.

It stops at SIGTERM, at SIGINT or when its standard input closes, so it cannot outlive the program
that holds the other end of that pipe.

usage: llama_server.py --model FILE --port N [--threads N] [--slots N] [--context N] [--key KEY]
"""

import argparse
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

import xllamacpp

SIGNALS = {signal.SIGTERM, signal.SIGINT}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--context", type=int, default=2048, help="tokens for each slot")
    parser.add_argument("--key")
    return parser.parse_args()


def stop_at_signal():
    signal.sigwait(SIGNALS)
    os._exit(0)


def stop_at_end_of_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


def healthy(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health").status == 200
    except urllib.error.URLError:
        return False


def main():
    args = arguments()
    # Blocked here, the signals reach only the thread that waits for them, even while C++ code runs.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for stop in (stop_at_signal, stop_at_end_of_input):
        threading.Thread(target=stop, daemon=True).start()

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.port = args.port
    params.n_ctx = args.context * args.slots
    params.n_parallel = args.slots
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.endpoint_slots = True
    params.endpoint_props = True
    params.endpoint_metrics = True
    if args.key:
        params.api_keys = [args.key]
    server = xllamacpp.Server(params)
    while not healthy(args.port):
        time.sleep(0.05)
    print("ready", flush=True)
    threading.Event().wait()
    del server


main()
