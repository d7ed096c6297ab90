"""Blocks system calls of this process permanently: sockets, other programs and processes, file attributes, settings.

A seccomp filter, written in the kernel's classic BPF. Linux only, on x86-64 and arm64; elsewhere nothing is
blocked.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000  #: with the number of an error
#: Load a word; jump if equal, if greater or equal, if any of these bits is set; return.
LOAD, EQUAL, ABOVE, ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST = 0, 4, 16  #: offsets of the call, the machine and the first argument
CLONE_THREAD = 0x00010000
X32 = 0x40000000  #: x86-64 has a second number for every call

#: By name: the number on x86-64 and on arm64; -1: the call does not exist there.
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
    "fork": (57, -1), "vfork": (58, -1), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "fchmod": (91, 52), "fchmodat2": (452, 452),
    "fchown": (93, 55), "lchown": (94, -1), "utimensat": (280, 88), "utime": (132, -1), "utimes": (235, -1),
    "futimesat": (261, -1), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "truncate": (76, 45),
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
#: Calls that are allowed for this process only: their first argument is a process.
OWN = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
CLONE = (56, 220)  #: for threads only
CLONE3 = (435, 435)  #: its flags are in memory, which a filter cannot read: libraries fall back to `clone`
MACHINES = {
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}  #: the column of CALLS, and the kernel's number of the architecture


def refuse_calls() -> bool:
    """Makes the kernel reject the calls of `CALLS` from now on; returns whether that worked."""
    if sys.platform != "linux" or platform.machine() not in MACHINES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    filter_ = _filter(*MACHINES[platform.machine()], os.getpid())
    text = ctypes.create_string_buffer(filter_, len(filter_))
    program = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    pointer = ctypes.create_string_buffer(program, len(program))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(pointer), 0, 0) == 0)


def _filter(column: int, architecture: int, process: int) -> bytes:
    """The BPF program. An instruction is a code, a number, and the labels to jump to if true and if false."""
    refused = sorted(pair[column] for pair in CALLS.values() if pair[column] >= 0)
    instructions: list[tuple[int, int, str, str]] = [
        (LOAD, ARCHITECTURE, "", ""), (EQUAL, architecture, "", "kill"),
        (LOAD, NUMBER, "", ""), (ABOVE, X32, "refuse", ""),
        *((EQUAL, number, "refuse", "") for number in refused),
        (EQUAL, CLONE3[column], "missing", ""), (EQUAL, CLONE[column], "clone", ""),
        *((EQUAL, pair[column], "own", "") for pair in OWN.values()),
        (RETURN, ALLOW, "", ""),
    ]  # fmt: skip
    labels = {}
    for name, part in (
        ("own", [(LOAD, FIRST, "", ""), (EQUAL, process, "allow", ""), (EQUAL, 0, "allow", "refuse")]),
        ("clone", [(LOAD, FIRST, "", ""), (ANY, CLONE_THREAD, "allow", "refuse")]),
        ("allow", [(RETURN, ALLOW, "", "")]),
        ("refuse", [(RETURN, FAIL | errno.EPERM, "", "")]),
        ("missing", [(RETURN, FAIL | errno.ENOSYS, "", "")]),
        ("kill", [(RETURN, KILL, "", "")]),
    ):
        labels[name] = len(instructions)
        instructions += part
    return b"".join(
        struct.pack(
            "HBBI",
            code,
            labels.get(if_true, following) - following,
            labels.get(if_false, following) - following,
            number,
        )
        for following, (code, number, if_true, if_false) in enumerate(
            instructions, 1
        )  # jumps count from the instruction after
    )
