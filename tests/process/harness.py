"""What every process test stands on: a temporary root, product binaries in it, children that are real processes, and one hang guard.

Rules of this harness:
  * nothing sleeps: a test waits for a line, an exit or a stop of a child, and one deadline (HANG_SECONDS) turns a wait that never ends into a failure;
  * children run as an unprivileged user when the test runs as root, so that a read-only home is read-only;
  * whatever was started is ended by its pid at the end, stopped or not; mounts are taken down; the root is removed unless the test failed.

Environment: ONEPEN_BUILD_DIR (its bin/ holds onepen, onepen.so, onepen_test.so, onepen_faults.so), ONEPEN_QUICK=1 (fewer rounds), ONEPEN_KEEP=1 (keep the root), ONEPEN_SEED (of the random choices; printed by every test that has some).
"""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PYTHON = "/usr/bin/python3"  # Debian's own: a self-built Python may lack enable_load_extension
HANG_SECONDS = 120.0  # a wait longer than this is a hang, whatever it waits for
QUICK = os.environ.get("ONEPEN_QUICK", "") not in ("", "0")
NOBODY = 65534
SQLITE_AUTH = 23  # what a plain SQLite host is told when Onepen refuses


class Failure(Exception):
    """A check that did not hold. The message is the whole report."""


def check(condition, message, *details):
    if not condition:
        lines = [message]
        for detail in details:
            lines.append("    " + (detail if isinstance(detail, str) else json.dumps(detail, default=str)))
        raise Failure("\n".join(lines))


def seed():
    text = os.environ.get("ONEPEN_SEED")
    return int(text) if text else int.from_bytes(os.urandom(4), "big")


MEMORY = pathlib.Path("/dev/shm")
MEMORY_BYTES = 2 << 30  # what must be free of it


def memory_folder():
    """Where files cost no disk: SIGKILL leaves the page cache in any case, so tests of kills lose nothing by it. None: wherever temporary files go."""
    try:
        left = os.statvfs(MEMORY)
    except OSError:
        return None
    return MEMORY if os.access(MEMORY, os.W_OK) and left.f_bavail * left.f_frsize >= MEMORY_BYTES else None


class Root:
    """The temporary root of one test: bin/ with the product, and everything the test makes. A context manager."""

    def __init__(self, name, in_memory=False):
        self.name = name
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"onepen-{name}-", dir=memory_folder() if in_memory else None))
        self.children = []
        self.mounts = []
        self.numbers = {}
        self.variables = {}  # of every child: what a bucket asks for
        self.as_root = os.geteuid() == 0
        self.path.chmod(0o755)
        self.bin = pathlib.Path(tempfile.mkdtemp(prefix=f"onepen-{name}-bin-"))  # memory may be mounted noexec
        self.bin.chmod(0o755)
        source = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", SOURCE / "build")) / "bin"
        # Copied, because the build folder may not be readable for the unprivileged user.
        for file in ("onepen", "onepen_app_test", "onepen.so", "onepen_test.so", "onepen_faults.so"):
            if (source / file).exists():
                shutil.copy2(source / file, self.bin / file)
        shutil.copy2(HERE / "worker.py", self.bin / "worker.py")
        for entry in self.bin.iterdir():
            entry.chmod(0o755)
        self.home_folder("user")

    # --- places -----------------------------------------------------------------------------------------------------
    def folder(self, name):
        """An empty folder of the unprivileged user."""
        path = self.path / name
        path.mkdir(parents=True)
        self.give(path)
        return path

    def give(self, path):
        if self.as_root:
            os.chown(path, NOBODY, NOBODY)

    def next(self, word):
        self.numbers[word] = self.numbers.get(word, 0) + 1
        return f"{word}{self.numbers[word]}"

    def home_folder(self, name=None):
        return self.folder(name or self.next("home"))

    def cache(self):
        """A new empty cache root."""
        return self.folder(self.next("cache"))

    def extension(self, hooks=True):
        path = self.bin / ("onepen_test.so" if hooks else "onepen.so")
        check(path.exists(), f"{path.name} is missing: build the target of the extension first, or set ONEPEN_BUILD_DIR")
        return path

    # --- mounts -----------------------------------------------------------------------------------------------------
    def tmpfs(self, name, size_bytes):
        """A small file system of its own, or None where this user may not mount (the caller then uses the shim alone)."""
        path = self.folder(name)
        options = f"size={size_bytes},mode=0755" + (f",uid={NOBODY},gid={NOBODY}" if self.as_root else "")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "onepen-test", str(path)], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        self.mounts.append(path)
        return path

    def resize(self, path, size_bytes):
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", str(path)], check=True)

    # --- processes --------------------------------------------------------------------------------------------------
    def environment(self, extra=None):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "TZ", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")}
        keep.setdefault("PATH", "/usr/bin:/bin")
        keep["HOME"] = str(self.path / "user")
        keep["TMPDIR"] = str(self.path / "user")
        keep.update(self.variables)
        keep.update({k: str(v) for k, v in (extra or {}).items()})
        return keep

    def user(self):
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.as_root else {}

    def start(self, argv, env=None, **options):
        # Descriptor 9 of the harness side never leaks: close_fds is the default.
        child = subprocess.Popen([str(a) for a in argv], env=self.environment(env), cwd=str(self.path / "user"), **self.user(), **options)
        self.children.append(child)
        return child

    def run(self, argv, env=None, timeout=HANG_SECONDS):
        """A command that ends by itself: (exit code, standard output, standard error)."""
        child = self.start(argv, env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            raise Failure(f"hang: {' '.join(map(str, argv))} did not end within {timeout:.0f} s\n{out}\n{err}") from None
        self.children.remove(child)
        return child.returncode, out, err

    def onepen(self, *arguments, env=None):
        return self.run([self.bin / "onepen", *arguments], env)

    def onepen_json(self, *arguments, env=None):
        code, out, err = self.onepen(*arguments, "--json", env=env)
        check(code == 0, f"onepen {' '.join(map(str, arguments))} --json ended with {code}", out, err)
        try:
            return json.loads(out)
        except ValueError:
            raise Failure(f"onepen {' '.join(map(str, arguments))} --json printed no JSON:\n{out}") from None

    # --- the end ----------------------------------------------------------------------------------------------------
    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        for child in self.children:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)  # ends a stopped process too
                child.wait()
        for path in reversed(self.mounts):
            subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)
        shutil.rmtree(self.bin, ignore_errors=True)
        if kind is None and not os.environ.get("ONEPEN_KEEP"):
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print(f"{self.name}: files kept in {self.path}", file=sys.stderr)
        return False


def url(home):
    """Of a directory its file: URL; a home that is given by its URL (a bucket) stays as it is."""
    return str(home) if "://" in str(home) else f"file://{home}"


def uri(name, home, cache=None, **parameters):
    """The URI name a SQLite host opens."""
    from urllib.parse import quote

    text = f"file:{quote(name)}?vfs=onepen&home={quote(url(home), safe='/:')}"
    if cache is not None:
        parameters = {"cache_root": cache, **parameters}
    for key, value in parameters.items():
        text += f"&{key}={quote(str(value), safe='/:')}"
    return text


class SqlError(Exception):
    def __init__(self, answer):
        super().__init__(f"{answer.get('name')} ({answer.get('code')}): {answer.get('message')}")
        self.code = answer.get("code")
        self.message = answer.get("message", "")
        self.answer = answer


class Worker:
    """A child that opens databases through the extension (worker.py): one JSON line asked, one JSON line answered; a run of transactions streams lines."""

    def __init__(self, root, extension=None, env=None, hooks=True, argv=None):
        self.root = root
        self.buffer = b""
        self.log = root.path / (root.next("worker") + ".stderr")
        command = argv or [PYTHON, root.bin / "worker.py", extension or root.extension(hooks)]
        with open(self.log, "wb") as errors:
            self.child = root.start(command, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0)
        self.pid = self.child.pid

    # --- raw lines --------------------------------------------------------------------------------------------------
    def send(self, op, **request):
        self.child.stdin.write(json.dumps({"op": op, **request}).encode() + b"\n")

    def line(self, seconds=HANG_SECONDS):
        """The next line as an object; None at the end of its output (it died)."""
        deadline = time.monotonic() + seconds
        fd = self.child.stdout.fileno()
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise Failure(f"hang: worker {self.pid} said nothing for {seconds:.0f} s\n{self.stack()}")
            data = os.read(fd, 1 << 16)
            if not data:
                return None
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(text)

    def answer(self):
        got = self.line()
        if got is None:
            raise Failure(f"worker {self.pid} died while it was asked something (exit {self.died()})\n{self.errors()}")
        if not got.get("ok"):
            raise SqlError(got)
        return got

    def ask(self, op, **request):
        self.send(op, **request)
        return self.answer()

    # --- what tests ask ---------------------------------------------------------------------------------------------
    def open(self, uri_text, conn="main", **more):
        return self.ask("open", uri=uri_text, conn=conn, **more)

    def sql(self, text, *parameters, conn="main"):
        return self.ask("sql", sql=text, params=list(parameters), conn=conn)["rows"]

    def value(self, text, *parameters, conn="main"):
        return self.sql(text, *parameters, conn=conn)[0][0]

    def refused(self, text, conn="main"):
        """Runs a statement that must be refused with SQLITE_AUTH; returns the error."""
        try:
            rows = self.sql(text, conn=conn)
        except SqlError as error:
            check(error.code == SQLITE_AUTH, f"{text!r} must be refused with code 23", str(error), self.sentence())
            return error
        raise Failure(f"{text!r} of worker {self.pid} must be refused with code 23, but it answered {rows!r}")

    def sentence(self, conn="aux"):
        """onepen_error(): the whole sentence of the last refusal."""
        return self.value("SELECT onepen_error()", conn=conn) or ""

    def status(self, conn="main"):
        return json.loads(self.value("SELECT onepen_status()", conn=conn))

    def close(self, conn="main"):
        return self.ask("close", conn=conn)

    # --- life and death ---------------------------------------------------------------------------------------------
    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_stopped()

    def wait_stopped(self):
        with hang_guard(f"worker {self.pid} was not stopped", kill=self.pid):
            _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return
        self.child.returncode = os.waitstatus_to_exitcode(status)
        raise Failure(f"worker {self.pid} ended ({self.child.returncode}) instead of being stopped\n{self.errors()}")

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def ready_or_stopped(self):
        """Waits until it has said something (or ended), or was stopped by a signal."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return "stopped"
            if pid:
                self.child.returncode = os.waitstatus_to_exitcode(status)
            if pid or b"\n" in self.buffer:
                return "ready"
            readable = select.select([self.child.stdout, SIGNALS], [], [], max(0.0, deadline - time.monotonic()))[0]
            if self.child.stdout in readable:
                return "ready"
            if not readable:
                raise Failure(f"hang: worker {self.pid} neither answered nor stopped for {HANG_SECONDS:.0f} s\n{self.stack()}")
            os.read(SIGNALS, 4096)

    def stops_until_ready(self, hold_at=None):
        """Lets it go on after each stop until it has something to say; the number of stops. Leaves it stopped at the stop number `hold_at`."""
        stops = 0
        while self.ready_or_stopped() == "stopped":
            stops += 1
            if stops == hold_at:
                break
            self.go_on()
        return stops

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.child.wait()
        self.forget()

    def quit(self):
        """Ends it in good order: closes what is open, then exits. Returns its exit code."""
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        return self.died()

    def died(self):
        """Waits for its end; the exit code, -9 when it was killed."""
        try:
            code = self.child.wait(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"hang: worker {self.pid} does not end\n{self.stack()}") from None
        self.forget()
        return code

    def forget(self):
        for stream in (self.child.stdin, self.child.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        if self.child in self.root.children:
            self.root.children.remove(self.child)

    def errors(self):
        return self.log.read_text(errors="replace")[-4000:]

    def stack(self):
        """Where its threads are, for the report of a hang."""
        lines = [self.errors()]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            for task in sorted(os.listdir(f"/proc/{self.pid}/task")):
                wchan = pathlib.Path(f"/proc/{self.pid}/task/{task}/wchan").read_text()
                lines.append(f"thread {task}: {wchan}")
            if shutil.which("gdb"):
                lines.append(subprocess.run(["gdb", "-p", str(self.pid), "-batch", "-ex", "thread apply all bt 25"], capture_output=True, text=True, timeout=60).stdout[-12000:])
        return "\n".join(lines)


@contextlib.contextmanager
def hang_guard(what, kill=None, seconds=HANG_SECONDS):
    """Turns a blocking system call that never returns into a failure (SIGALRM); `kill` ends the child that was waited for."""

    def rang(_signal, _frame):
        if kill is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(kill, signal.SIGKILL)
        raise Failure(f"hang: {what} within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, rang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tree(folder):
    """Every file under a folder with size, times and content: equal before and after means that nothing was written."""
    result = {}
    for base, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(base, name)
            stat = os.lstat(path)
            content = None
            if name in files and not os.path.islink(path):
                with open(path, "rb") as file:
                    content = file.read()
            result[os.path.relpath(path, folder)] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, content)
    return result


def log_objects(home, name="app"):
    """The log objects of a stream in a directory home, in order of their ids (docs/formats/log-object.md)."""
    return sorted(path for path in (pathlib.Path(home) / name / "@log").rglob("*") if path.is_file())


def reset_kind(status):
    reset = status.get("reset") or status.get("last_reset")
    return None if not reset else reset.get("kind")


def main(test, name, in_memory=False):
    """Runs one test function with its root; prints what was verified, or the failure, and exits."""
    started = time.monotonic()
    try:
        with Root(name, in_memory) as root:
            test(root)
    except Failure as failure:
        print(f"{name}: FAILED\n{failure}")
        sys.exit(1)
    except SqlError:
        print(f"{name}: FAILED by a statement that must not fail")
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)
    print(f"{name}: passed in {time.monotonic() - started:.1f} s{' (quick)' if QUICK else ''}")


def _signal_pipe():
    """A descriptor that becomes readable when a child is stopped or ends (SIGCHLD): something to select on."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


SIGNALS = _signal_pipe()
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, options):
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(6), options.encode()) != 0:  # MS_NOSUID | MS_NODEV
        raise OSError(ctypes.get_errno(), f"mount {kind} at {target}: {os.strerror(ctypes.get_errno())}")
