"""Runs a program that is killed the moment it opens a socket.

usage: no_sockets.py PROGRAM ARGUMENT...
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


def main():
    # The number of the system call is the first word of what a filter sees.
    program = (
        instruction(LOAD_WORD, 0)
        + instruction(JUMP_IF_EQUAL, SOCKET, 0, 1)
        + instruction(RETURN, KILL_PROCESS)
        + instruction(RETURN, ALLOW)
    )
    code = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header), 0, 0
    ):
        sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
    os.execv(sys.argv[1], sys.argv[1:])


main()
