"""Homes and names that cannot be served: each is refused with an error of its own that says what is wrong, and nothing is changed or rebuilt over it."""

import json
import os
import select
import shutil
import subprocess

from harness import HANG_SECONDS, HERE, PYTHON, Failure, SqlError, Worker, check, log_objects, main, tree, uri, url

ROWS = 12
EXIT = {"usage": 2, "refused": 3, "unavailable": 5, "not found": 6, "damaged": 7}


def filled(root):
    """A home with a database of ROWS commits; nobody owns it any more."""
    home = root.home_folder()
    worker = Worker(root)
    worker.open(uri("app", home, root.cache()))
    worker.sql("CREATE TABLE t(x, y)")
    for number in range(ROWS):
        worker.sql("INSERT INTO t VALUES(?, randomblob(500))", number)
    worker.quit()
    check(len(log_objects(home)) >= ROWS, "the log of the home was not found", sorted(tree(home)))
    return home


def refused_open(root, name_uri, cache=None):
    """Opening must fail; returns (code, sentence)."""
    worker = Worker(root)
    try:
        worker.open(name_uri)
        worker.sql("SELECT count(*) FROM sqlite_master")
    except SqlError as error:
        sentence = worker.sentence()
        worker.quit()
        return error.code, sentence
    rows = worker.sql("SELECT name FROM sqlite_master")
    raise Failure(f"opening {name_uri} must fail, but it answered with tables {rows}")


def must_say(what, sentence, *words):
    check(len(sentence) >= 30 and sentence == sentence.strip(), f"{what}: a whole sentence is wanted", sentence)
    for word in words:
        alternatives = word if isinstance(word, tuple) else (word,)
        check(any(one.lower() in sentence.lower() for one in alternatives), f"{what}: the sentence must name {' or '.join(alternatives)}", sentence)


# --- damaged logs -----------------------------------------------------------------------------------------------------
def truncated(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def emptied(path):
    path.write_bytes(b"")


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 0x10
    path.write_bytes(data)


def flipped_header(path):
    data = bytearray(path.read_bytes())
    data[40] ^= 0x01
    path.write_bytes(data)


def newer(path):
    data = bytearray(path.read_bytes())
    # docs/formats/log-object.md: the two bytes after the 4-byte magic are the format version, little-endian; a newer writer would also have its own checksum.
    data[4:6] = (9).to_bytes(2, "little")
    path.write_bytes(data)


def missing(path):
    path.unlink()


DAMAGES = (
    ("a truncated log object", truncated, (("ends", "truncated", "short", "damaged"),)),
    ("an empty log object", emptied, (("empty", "ends", "short", "damaged"),)),
    ("a bit-flipped log object", flipped, (("damaged", "checksum"),)),
    ("a log object with a flipped header", flipped_header, (("damaged", "checksum", "not"),)),
    ("a log object of a newer format", newer, (("newer", "version"), ("upgrade", "newer"))),
    ("a log object missing in the middle", missing, (("missing", "gap", "absent"),)),
)


def damaged_logs(root):
    told = {}
    for what, damage, words in DAMAGES:
        home = filled(root)
        warm = root.cache()
        warm_worker = Worker(root)  # a copy that has everything, to see that it is not pushed over the damage either
        warm_worker.open(uri("app", home, warm))
        warm_worker.sql("INSERT INTO t VALUES('warm', 1)")
        warm_worker.quit()
        objects = log_objects(home)
        victim = objects[len(objects) // 2]
        damage(victim)
        before = tree(home)
        code, sentence = refused_open(root, uri("app", home, root.cache()))
        must_say(what, sentence, "app", victim.name.lstrip("0") or victim.name, *words)
        check(code not in (0, 1), f"{what}: the code of the failed open must be an error of the file", str(code), sentence)
        check(tree(home) == before, f"{what}: a refused opening changed the home", sentence)
        status, out, err = root.onepen("verify", "app", "--home", url(home), "--cache-root", root.cache())
        check(status == EXIT["damaged"], f"{what}: onepen verify must end with {EXIT['damaged']}, not {status}", out, err)
        check(victim.name.lstrip("0") in out + err, f"{what}: onepen verify must name the object {victim.name}", out, err)
        status, out, err = root.onepen("history", "app", "--home", url(home))
        check(status == EXIT["damaged"], f"{what}: onepen history must end with {EXIT['damaged']}, not {status}", out, err)
        check(tree(home) == before, f"{what}: an inspection changed the home")
        # The warm copy: it may go on only if its own position lies beyond the damage and what it needs is readable; it must never lose what it has.
        worker = Worker(root)
        try:
            worker.open(uri("app", home, warm))
            rows = worker.value("SELECT count(*) FROM t")
            check(rows == ROWS + 1, f"{what}: the warm copy lost rows: {rows}")
            outcome = "a warm copy goes on"
        except SqlError:
            outcome = "a warm copy is refused too"
            must_say(what, worker.sentence(), "app")
        worker.quit()
        told[what] = f"{sentence}  [{outcome}]"
    return told


def last_object_damaged(root):
    """A damaged newest object must not be taken for the end of the log: the next claim would be written over somebody's commit."""
    home = filled(root)
    flipped(log_objects(home)[-1])
    before = tree(home)
    _, sentence = refused_open(root, uri("app", home, root.cache()))
    must_say("a damaged newest object", sentence, ("damaged", "checksum"))
    check(tree(home) == before, "a refused opening changed the home", sentence)
    return sentence


# --- names, schemes, rights -------------------------------------------------------------------------------------------
def names(root):
    home = filled(root)
    before = tree(home)
    outside = tree(root.path / "user")
    told = {}
    for name in ("../x", "..", "a/../../x", "/etc/x", ".hidden/..", "a//b", "x" * 300, "a b\tc"):
        _, sentence = refused_open(root, uri(name, home, root.cache()))
        must_say(f"the name {name!r}", sentence, "name")
        told[name[:20]] = sentence
        status, out, err = root.onepen("status", name, "--home", url(home))
        check(status == EXIT["usage"], f"onepen status {name!r} must end with {EXIT['usage']}, not {status}", out, err)
    check(tree(home) == before, "a refused name left something in the home")
    check(set(tree(root.path / "user")) == set(outside), "a refused name left something elsewhere")
    return told


def schemes(root):
    told = {}
    for home, word in (("gopher://somewhere/x", "gopher"), ("nothing", ("scheme", "url", "file:")), ("file://other-host/srv/pen", ("host", "file:///")), ("s3://b/prefix", "s3://bucket/prefix"),
                       ("file:///does/not/exist/and/cannot/be/made", ("/does", "cannot"))):
        _, sentence = refused_open(root, uri("app", home, root.cache()))
        must_say(f"the home {home}", sentence, word)
        told[home] = sentence
        status, out, err = root.onepen("list", "--home", home)
        check(status in (EXIT["usage"], EXIT["unavailable"], EXIT["not found"]), f"onepen list --home {home} ended with {status}", out, err)
    check(len(set(told.values())) == len(told), "each home must have an error of its own", told)
    _, sentence = refused_open(root, f"file:app?vfs=onepen&cache_root={root.cache()}")  # no home at all
    must_say("no home", sentence, "home", "ONEPEN_HOME_URL")
    told["(none)"] = sentence
    _, sentence = refused_open(root, uri("app", filled(root), root.cache(), takeover="perhaps"))
    must_say("a parameter that does not exist", sentence, "takeover", "always")
    told["takeover=perhaps"] = sentence
    return told


def read_only(root):
    home = filled(root)
    for base, folders, files in os.walk(home, topdown=False):
        for name in files:
            os.chmod(os.path.join(base, name), 0o444)
        os.chmod(base, 0o555)
    before = tree(home)
    code, sentence = refused_open(root, uri("app", home, root.cache()))
    must_say("a read-only home", sentence, str(home), ("permission", "read-only", "write"))
    check(tree(home) == before, "a read-only home changed")
    status, out, _ = root.onepen("sql", "app", "SELECT count(*) FROM t", "--home", url(home), "--cache-root", root.cache())
    check(status == 0 and str(ROWS) in out, "a read-only home must still be readable", out)
    # A copy that cannot be written: the cache root belongs to somebody else.
    closed = root.cache()
    os.chmod(closed, 0o555)
    _, elsewhere = refused_open(root, uri("app", filled(root), closed))
    must_say("a read-only cache root", elsewhere, str(closed), ("permission", "read-only", "write"))
    os.chmod(closed, 0o755)
    return sentence, elsewhere


# --- mounts -----------------------------------------------------------------------------------------------------------
def network_mount(root):
    """A FUSE mount that calls itself sshfs, with the kernel's lookup cache on: refused as home and as cache root, before anything is written."""
    told = {}
    for kind in ("fuse.sshfs", "fuse.glusterfs"):
        folder = root.path / root.next("mount")
        folder.mkdir()
        server = subprocess.Popen([PYTHON, "-B", str(HERE / "fuse_mount.py"), str(folder), kind], stdout=subprocess.PIPE)
        root.children.append(server)
        check(select.select([server.stdout], [], [], HANG_SECONDS)[0], "the FUSE server says nothing")
        first = server.stdout.readline().strip()
        check(first == b"mounted", "a FUSE file system cannot be mounted here; run as root or in a user namespace", first.decode())
        root.mounts.append(folder)
        _, sentence = refused_open(root, uri("app", folder, root.cache()))
        must_say(f"a home on {kind}", sentence, kind, ("lookup", "cach", "network"))
        told["home on " + kind] = sentence
        _, sentence = refused_open(root, uri("app", filled(root), folder))
        must_say(f"a copy on {kind}", sentence, kind, ("local", "network"))
        told["copy on " + kind] = sentence
        subprocess.run(["umount", str(folder)], check=True)
        root.mounts.remove(folder)
        rest, _ = server.communicate(timeout=HANG_SECONDS)
        root.children.remove(server)
        check(b"change" not in rest, f"a refused {kind} mount was written to", rest.decode())
    return told


# --- a second SQLite library ------------------------------------------------------------------------------------------
SECOND = r"""
import ctypes, json, sqlite3, sys
extension, library, name = sys.argv[1:4]
aux = sqlite3.connect(":memory:", isolation_level=None)
aux.enable_load_extension(True)
aux.load_extension(extension)
main = sqlite3.connect(name, uri=True, isolation_level=None)
main.execute("CREATE TABLE t(x)")
# The same extension in another SQLite of this process: two libraries do not see each other's locks (POSIX locks belong to the process).
lib = ctypes.CDLL(library)
lib.sqlite3_errmsg.restype = ctypes.c_char_p
db = ctypes.c_void_p()
assert lib.sqlite3_open(b":memory:", ctypes.byref(db)) == 0
lib.sqlite3_enable_load_extension(db, 1)
message = ctypes.c_char_p()
code = lib.sqlite3_load_extension(db, extension.encode(), None, ctypes.byref(message))
main.execute("INSERT INTO t VALUES('the first library goes on')")
print(json.dumps({"code": code, "message": (message.value or b"").decode(), "rows": main.execute("SELECT count(*) FROM t").fetchone()[0]}))
main.close()
"""


def second_library(root):
    # Which file Python's own sqlite3 module uses: a copy of it is another library to the loader.
    _, maps, _ = root.run([PYTHON, "-c", "import sqlite3; print(open('/proc/self/maps').read())"])
    paths = {line.split()[-1] for line in maps.splitlines() if "libsqlite3.so" in line}
    check(len(paths) == 1, "libsqlite3.so was not found", sorted(paths))
    copy = root.path / "user" / "libsqlite3-second.so"
    shutil.copy(paths.pop(), copy)
    script = root.path / "user" / "second.py"
    script.write_text(SECOND)
    code, out, err = root.run([PYTHON, script, root.extension(), copy, uri("app", root.home_folder(), root.cache())])
    check(code == 0, "the process with two SQLite libraries ended badly", out, err)
    answer = json.loads(out)
    check(answer["code"] != 0, "a second SQLite library must be refused when it loads the extension", answer)
    must_say("a second SQLite library", answer["message"], ("second", "another", "two"), "SQLite", "process")
    check(answer["rows"] == 1, "the first library must go on", answer)
    return answer["message"]


def test(root):
    said = {}
    said.update(damaged_logs(root))
    said["a damaged newest object"] = last_object_damaged(root)
    said.update(names(root))
    said.update(schemes(root))
    said["a read-only home"], said["a read-only cache root"] = read_only(root)
    said.update(network_mount(root))
    said["a second SQLite library"] = second_library(root)
    print(f"bad_homes: {len(said)} refusals, each with its own sentence, nothing written over anything:")
    for what, sentence in said.items():
        print(f"    {what}: {sentence}")


main(test, "bad_homes")
