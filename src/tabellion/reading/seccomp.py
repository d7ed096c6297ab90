"""Takes system calls away from this process for good: sockets, other programs, other processes, the kernel's settings.

A filter for the kernel (seccomp), made of a few instructions of its old packet filter. Linux only, on x86-64 and
arm64; elsewhere nothing is taken away.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
LOAD, EQUAL, ABOVE, RETURN = 0x20, 0x15, 0x35, 0x06  #: of a word; jump if equal; jump if greater or equal; end
NUMBER, ARCHITECTURE = 0, 4  #: where the call and the machine are in what the filter sees
X32 = 0x40000000  #: x86-64 knows every call by a second number

#: By name: the number on x86-64 and on arm64; -1: it has none.
CALLS = {
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "bind": (49, 200),
    "listen": (50, 201), "socketpair": (53, 199), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430), "setns": (308, 268),
    "unshare": (272, 97), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "init_module": (175, 105),
    "finit_module": (313, 273), "kexec_load": (246, 104), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_by_handle_at": (304, 265), "link": (86, -1), "linkat": (265, 37),
    "symlink": (88, -1), "symlinkat": (266, 36), "mknod": (133, -1), "mknodat": (259, 33), "chmod": (90, -1),
    "fchmodat": (268, 53), "chown": (92, -1), "fchownat": (260, 54), "reboot": (169, 142), "swapon": (167, 224),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161), "quotactl": (179, 60),
}  # fmt: skip
MACHINES = {
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}  #: which number of CALLS, and its name for the kernel


def refuse_calls() -> bool:
    """Has the kernel refuse the calls of `CALLS` from now on; whether it does."""
    if sys.platform != "linux" or platform.machine() not in MACHINES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    column, architecture = MACHINES[platform.machine()]
    numbers = sorted(pair[column] for pair in CALLS.values() if pair[column] >= 0)
    filter_ = _filter(numbers, architecture)
    text = ctypes.create_string_buffer(filter_, len(filter_))
    program = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    pointer = ctypes.create_string_buffer(program, len(program))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(pointer), 0, 0) == 0)


def _filter(numbers: list[int], architecture: int) -> bytes:
    """Each instruction is what to do, how far to jump if so and if not, and a number."""
    made = [
        (LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER), (ABOVE, len(numbers) + 1, 0, X32),
    ]  # fmt: skip
    made += [(EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    made += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    return b"".join(struct.pack("HBBI", *one) for one in made)
