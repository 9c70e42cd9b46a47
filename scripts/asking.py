"""Questions to several servers at once, for scripts that measure them."""

import json
import queue
import threading
import urllib.error
import urllib.request


class Refused(Exception):
    """A server answered with an error; it says which."""


def ask(url, body):
    """The answer to a request for a chat."""
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=1200) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Refused(f"{error.code} {error.read().decode(errors='replace')[:400]}") from error


def with_all(urls, jobs, work):
    """`work(url, job)` for every job, one at a time on each server; what they return, in the jobs' order."""
    left, done, failed = queue.SimpleQueue(), {}, []
    for numbered in enumerate(jobs):
        left.put(numbered)

    def serve(url):
        while not failed:
            try:
                number, job = left.get_nowait()
            except queue.Empty:
                return
            try:
                done[number] = work(url, job)
            except Exception as error:  # Told below: a thread's own exceptions end nothing else.
                failed.append(error)

    threads = [threading.Thread(target=serve, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [done[number] for number in sorted(done)]
