"""A real mount of a file system that looks like a network one: a FUSE server in this file, speaking the kernel's protocol on /dev/fuse by itself.

    fuse_mount.py <folder> <type, e.g. fuse.sshfs>

It serves one empty folder, answers every lookup with "no such file", refuses every change with EROFS and writes one line per request name on standard
output. It is there so that mount detection meets a real entry of /proc/self/mountinfo. Needs the right to mount (root, or a user namespace).
"""

import ctypes
import errno
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 1, 2, 3, 14, 17, 18, 26, 27, 28, 29, 34, 36, 38, 42
CHANGES = {4: "setattr", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 16: "write", 21: "setxattr", 35: "create", 45: "rename2", 51: "tmpfile"}
HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding


def attributes():
    # ino size blocks atime mtime ctime, their nanoseconds, mode nlink uid gid rdev blksize flags
    return struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0)


def main():
    folder, kind = sys.argv[1], sys.argv[2]
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    if libc.mount(b"user@elsewhere:/srv", folder.encode(), kind.encode(), ctypes.c_ulong(6), options) != 0:
        print(f"cannot mount: {os.strerror(ctypes.get_errno())}", flush=True)
        sys.exit(1)
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(fd, 1 << 18)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                continue
            raise
        _, code, unique, _node, *_ = HEADER.unpack_from(request)
        body, failure = b"", 0
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        if code == INIT:
            body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, 0)
        elif code == GETATTR:
            body = struct.pack("<QII", 0, 0, 0) + attributes()
        elif code == LOOKUP:
            failure = errno.ENOENT
        elif code == STATFS:
            body = struct.pack("<QQQQQIII4x24x", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 20, 4096, 255, 4096)
        elif code in (OPENDIR, OPEN):
            body = struct.pack("<QII", 1, 0, 0)
        elif code in (READDIR, RELEASE, RELEASEDIR, DESTROY, ACCESS):
            pass
        elif code in CHANGES:
            print(f"change {CHANGES[code]}", flush=True)
            failure = errno.EROFS
        else:
            failure = errno.ENOSYS
        os.write(fd, struct.pack("<IiQ", 16 + len(body), -failure, unique) + body)


main()
