"""Finds the libclang that bindgen is to load, and proves it: it is opened as bindgen would open it and
reads a header that includes the compiler's own. Prints its path, then the directory of the compiler's
headers if the library does not know them itself. Exit code 1, with the reasons, if none works.

Every folder named on the command line is tried before the system's."""

import ctypes
import glob
import os
import subprocess
import sys
import tempfile

HEADER = "#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n#include <stdio.h>\n"
ERROR = 3  # CXDiagnostic_Error; 4 is fatal


def candidates(folders):
    named = os.environ.get("LIBCLANG_PATH")
    if named:
        # Whoever set it means this one and no other.
        folders = [named]
    else:
        folders = folders + sorted(glob.glob("/usr/lib/llvm-*/lib"), key=version, reverse=True)
        folders += ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64"]
        folders += glob.glob("/usr/lib/*-linux-gnu*") + glob.glob("/usr/local/llvm*/lib*")
        folders += ["/Library/Developer/CommandLineTools/usr/lib"]
    for folder in folders:
        if os.path.isfile(folder):
            yield folder
            continue
        # libclang-cpp is another library, whose name only looks like it.
        for pattern in ("libclang.so", "libclang-[0-9]*.so*", "libclang.so.*", "libclang.dylib"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), reverse=True)


def version(folder):
    digits = "".join(c for c in folder if c.isdigit())
    return int(digits or 0)


def compiler_headers():
    try:
        found = subprocess.run(
            ["cc", "-print-file-name=include/stddef.h"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return os.path.dirname(found) if os.path.isabs(found) else None


def errors(path, arguments):
    """What the library says against the header; an empty list is a proof."""
    library = ctypes.CDLL(path)
    pointer = ctypes.c_void_p
    library.clang_createIndex.restype = pointer
    library.clang_parseTranslationUnit.restype = pointer
    library.clang_getDiagnostic.restype = pointer
    with tempfile.NamedTemporaryFile("w", suffix=".h") as header:
        header.write(HEADER)
        header.flush()
        given = (ctypes.c_char_p * len(arguments))(*[a.encode() for a in arguments])
        index = pointer(library.clang_createIndex(0, 0))
        unit = library.clang_parseTranslationUnit(
            index, header.name.encode(), given, len(arguments), None, 0, 0
        )
        if not unit:
            return ["it could not read a header"]
        count = library.clang_getNumDiagnostics(pointer(unit))
        found = [pointer(library.clang_getDiagnostic(pointer(unit), i)) for i in range(count)]
        severe = [d for d in found if library.clang_getDiagnosticSeverity(d) >= ERROR]
        return ["it does not find the compiler's headers"] if severe else []


def proven(path):
    """The include folder it needs ("" for none), or None with the reason on stderr."""
    headers = compiler_headers()
    reasons = []
    try:
        for folder in [""] + ([headers] if headers else []):
            reasons = errors(path, [f"-I{folder}"] if folder else [])
            if not reasons:
                return folder
    except (OSError, AttributeError) as error:
        reasons = [str(error)]
    print(f"set-up: {path} is no use: {'; '.join(reasons)}", file=sys.stderr)
    return None


def main():
    for path in dict.fromkeys(os.path.realpath(p) for p in candidates(sys.argv[1:])):
        # A library that crashes must not take the search with it.
        child = os.fork()
        if child == 0:
            folder = proven(path)
            if folder is None:
                os._exit(1)
            print(path, folder, sep="\n", flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
