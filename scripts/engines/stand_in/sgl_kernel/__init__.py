"""Stands in for SGLang's compiled kernels, which have no wheel for a CPU without AMX.

On such a CPU SGLang computes with torch and needs one function from here; it only imports the
other names. Calling one of those is an error that says so.
"""

__version__ = "0.0.0+stand-in"


def assign_req_to_token_pool_cpu(requests, pool, starts, ends, locations, _width):
    """Writes each request's new cache locations into its row of the pool."""
    offset = 0
    for request, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist()):
        pool[request, start:end] = locations[offset : offset + end - start].to(pool.dtype)
        offset += end - start


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_args, **_kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} has no stand-in")

    return missing
