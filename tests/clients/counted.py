"""What a server has counted, from its `/metrics`."""

import re
import urllib.request


def requests_and_tokens(url, key, route):
    """How many requests of a route it has answered, and how many tokens it has written in all."""
    request = urllib.request.Request(url + "/metrics", headers={"Authorization": f"Bearer {key}"})
    text = urllib.request.urlopen(request).read().decode()
    requests = re.findall(rf'^tandem_requests_total\{{[^}}]*"{route}"[^}}]*\}} (\d+)', text, re.M)
    tokens = re.findall(r"^tandem_tokens_total\{.*\} (\d+)", text, re.M)
    return sum(map(int, requests)), sum(map(int, tokens))
