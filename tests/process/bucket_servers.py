"""Real bucket servers, started by a test: radosgw (S3), azurite (Azure Blob), and s3rver, an S3 server that ignores conditions and must be refused. At night
also moto (S3).

    with Radosgw(root) as server: ... server.url("app/prefix"), server.environment(), server.client()

Each listens on loopback only, keeps everything in one temporary folder, runs as the unprivileged user where its files may be read by it, and is ended by its
pid with the test, also when the test dies (server_keeper.py). The Debian packages are in scripts/packages.txt, the npm ones come by install_bucket_servers.py.
"""

import base64
import contextlib
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

from bucket_client import Azure, S3
from harness import HANG_SECONDS, HERE, NOBODY, PYTHON, SOURCE, Failure, check, memory_folder

PORTS = range(20_000, 32_000)  # below what the kernel gives to outgoing connections, so that none of these takes one meanwhile
NODE_FOLDER = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", SOURCE / "build")) / "bucket-node"
MOTO_FOLDER = NODE_FOLDER.with_name("bucket-moto")
BUCKET = "onepen"
ACCESS_KEY, SECRET_KEY = "ONEPENTESTKEY0000001", "onepen-test-secret-of-nobody-000000000001"
OTHER_ACCESS_KEY, OTHER_SECRET_KEY = "ONEPENTESTKEY0000002", "onepen-test-secret-of-nobody-000000000002"  # a user without a right to the bucket
# azurite's published development account: no secret.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def free_port():
    chance = random.SystemRandom()
    for _ in range(1000):
        port = chance.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Failure("no free port on loopback")


def readable_by_everybody(path):
    path = pathlib.Path(path).resolve()
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in [path, *path.parents] if folder.is_dir())


class Server:
    """What the three have in common: the folder, the keeper, and waiting until the port answers."""

    name = "server"

    def __init__(self, root):
        self.root = root
        self.port = free_port()

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"onepen-{self.name}-", dir=memory_folder()))
        self.user = NOBODY if os.geteuid() == 0 and self.unprivileged() else None
        if self.user is not None:
            os.chown(self.folder, NOBODY, NOBODY)
        self.folder.chmod(0o755)
        self.keeper = subprocess.Popen([PYTHON, "-B", str(HERE / "server_keeper.py"), str(self.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.deadline = time.monotonic() + HANG_SECONDS
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()
        return False

    def end(self):
        self.keeper.stdin.close()
        self.keeper.wait()
        self.keeper.stdout.close()

    def unprivileged(self):
        return True

    def variables(self):
        return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), "TMPDIR": str(self.folder)}

    def start(self, *argv):
        """One server process; its pid."""
        self.log = self.folder / f"{pathlib.Path(argv[0]).name}-{argv[1]}.out".replace("/", "_")
        ask = {"argv": [str(a) for a in argv], "log": str(self.log), "user": self.user, "env": self.variables()}
        self.keeper.stdin.write(json.dumps(ask).encode() + b"\n")
        self.keeper.stdin.flush()
        text = self.keeper.stdout.readline()
        check(text, f"{argv[0]} could not be started")
        return json.loads(text)["pid"]

    def said(self):
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def until_it_listens(self, pid, port=None):
        """Returns once the port answers. Between two tries it waits for the server's end, which is a failure."""
        ended = os.pidfd_open(pid)
        try:
            while time.monotonic() < self.deadline:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port or self.port), timeout=1):
                    return
                check(not select.select([ended], [], [], 0.02)[0], f"{self.name} ended before it listened", self.said())
        finally:
            os.close(ended)
        raise Failure(f"hang: {self.name} does not listen on port {port or self.port}\n{self.said()}")

    def run(self, *argv):
        """A command of the server's own, which waits for what it needs by itself."""
        user = {"user": self.user, "group": self.user, "extra_groups": []} if self.user is not None else {}
        done = subprocess.run([str(a) for a in argv], env=self.variables(), cwd=self.folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False, **user)
        check(done.returncode == 0, f"{' '.join(map(str, argv))} ended with {done.returncode}", done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def endpoint(self, port=None, scheme="http"):
        return f"{scheme}://127.0.0.1:{port or self.port}"


class S3Server(Server):
    access_key, secret_key, region = ACCESS_KEY, SECRET_KEY, "us-east-1"
    kind = "s3"

    def environment(self, **more):
        """What a user of the bucket has in the environment."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key, "AWS_REGION": self.region, "AWS_EC2_METADATA_DISABLED": "true", **more}

    def url(self, prefix="", port=None, bucket=BUCKET, scheme="http"):
        return f"s3://{bucket}{'/' if prefix else ''}{prefix}?endpoint={self.endpoint(port, scheme)}"

    def client(self, port=None, **more):
        return S3("127.0.0.1", port or self.port, self.access_key, self.secret_key, self.region, **{"bucket": BUCKET, **more})


class Radosgw(S3Server):
    """A monitor, a store in memory and the gateway: some two seconds."""

    name = "radosgw"

    def begin(self):
        v2, v1, fsid, osd = free_port(), free_port(), uuid.uuid4(), uuid.uuid4()
        (self.folder / "ceph.conf").write_text(CEPH_CONF.format(folder=self.folder, v2=v2, v1=v1, fsid=fsid, port=self.port))
        caps = {"mon.": ["mon"], "client.admin": ["mon", "osd", "mds", "mgr"], "osd.0": ["mon", "osd", "mgr"], "client.rgw": ["mon", "osd"]}
        keyring = ""
        for who, rights in caps.items():
            key = base64.b64encode(struct.pack("<HIIH", 1, int(time.time()), 0, 16) + os.urandom(16)).decode()
            keyring += f"[{who}]\n\tkey = {key}\n" + "".join(f'\tcaps {right} = "allow *"\n' for right in rights)
        (self.folder / "keyring").write_text(keyring)
        for part in ("mon", "osd"):
            (self.folder / part).mkdir()
        for path in self.folder.iterdir():
            if self.user is not None:
                os.chown(path, NOBODY, NOBODY)
        self.run("monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]", "--fsid", fsid, self.folder / "monmap")
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", self.folder / "monmap", "--keyring", self.folder / "keyring")
        self.start("ceph-mon", "-f", "-i", "a")
        self.run("ceph", "--connect-timeout", str(int(HANG_SECONDS)), "osd", "new", osd)
        self.run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        self.start("ceph-osd", "-f", "-i", "0")
        self.begin_gateway()
        for user, access, secret in (("onepen", ACCESS_KEY, SECRET_KEY), ("other", OTHER_ACCESS_KEY, OTHER_SECRET_KEY)):
            self.run("radosgw-admin", "user", "create", f"--uid={user}", f"--display-name={user}", f"--access-key={access}", f"--secret-key={secret}")
        status, _, body = self.client().make_bucket()
        check(status == 200, "the bucket could not be made", status, body.decode(errors="replace"))

    def begin_gateway(self):
        self.gateway = self.start("radosgw", "-f", "-n", "client.rgw")
        self.until_it_listens(self.gateway)

    def kill_gateway(self):
        """kill -9 of what answers; what it wrote stays in its store. begin_gateway() starts another one on the same port."""
        ended = os.pidfd_open(self.gateway)
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        select.select([ended], [], [], HANG_SECONDS)
        os.close(ended)

    def variables(self):
        return {**super().variables(), "CEPH_CONF": str(self.folder / "ceph.conf")}


# One of everything, no copies, no background work, and a quorum of one that does not wait to gather proposals.
CEPH_CONF = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {folder}/keyring
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
mon data = {folder}/mon
mon data avail warn = 0
mon data avail crit = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon osd min in ratio = 0
mon tick interval = 1
paxos propose interval = 0.05
paxos min wait = 0.01
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd heartbeat interval = 1
osd op num shards = 2
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw rados pool pg num min = 1
rgw rados pool autoscale bias = 1
rgw num control oids = 1
rgw gc max objs = 1
rgw lc max objs = 1
rgw reshard num logs = 1
rgw data log num shards = 1
rgw md log max shards = 1
rgw objexp hints num shards = 1
rgw dynamic resharding = false
rgw enable gc threads = false
rgw enable lc threads = false
rgw enable quota threads = false
rgw run sync thread = false
rgw enable usage log = false
"""


def node_program(name):
    program = NODE_FOLDER / "node_modules" / ".bin" / name
    check(program.exists(), f"{name} is not installed in {NODE_FOLDER}: run tests/process/install_bucket_servers.py first")
    return [shutil.which("node", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("node"), program.resolve()]


class S3rver(S3Server):
    """It answers every conditional create with success: the double that must be refused."""

    name = "s3rver"
    access_key, secret_key = "S3RVER", "S3RVER"

    def unprivileged(self):
        return readable_by_everybody(NODE_FOLDER)

    def begin(self):
        (self.folder / "data").mkdir()
        if self.user is not None:
            os.chown(self.folder / "data", NOBODY, NOBODY)
        self.until_it_listens(self.start(*node_program("s3rver"), "-d", self.folder / "data", "-a", "127.0.0.1", "-p", self.port, "--configure-bucket", BUCKET, "--silent"))


class Moto(S3Server):
    """A third S3 server, for the nights: other code, other answers. Installed by install_bucket_servers.py moto."""

    name = "moto"

    def unprivileged(self):
        return readable_by_everybody(MOTO_FOLDER)

    def begin(self):
        program = MOTO_FOLDER / "bin" / "moto_server"
        check(program.exists(), f"moto is not installed in {MOTO_FOLDER}: run tests/process/install_bucket_servers.py moto first")
        self.until_it_listens(self.start(program, "-H", "127.0.0.1", "-p", self.port))
        status, _, body = self.client().make_bucket()
        check(status == 200, "the bucket could not be made", status, body.decode(errors="replace"))


class Azurite(Server):
    name = "azurite"
    kind = "az"

    def unprivileged(self):
        return readable_by_everybody(NODE_FOLDER)

    def begin(self):
        self.until_it_listens(self.start(*node_program("azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", self.port, "--location", self.folder / "data",
                                         "--silent", "--skipApiVersionCheck", "--disableTelemetry"))
        status, _, body = self.client().make_bucket()
        check(status == 201, "the container could not be made", status, body.decode(errors="replace"))

    def environment(self, **more):
        return {"AZURE_STORAGE_ACCOUNT": AZURE_ACCOUNT, "AZURE_STORAGE_KEY": AZURE_KEY, **more}

    def url(self, prefix="", port=None, bucket=BUCKET, scheme="http"):
        return f"az://{bucket}{'/' if prefix else ''}{prefix}?endpoint={self.endpoint(port, scheme)}/{AZURE_ACCOUNT}"

    def client(self, port=None, **more):
        return Azure("127.0.0.1", port or self.port, AZURE_ACCOUNT, AZURE_KEY, **{"bucket": BUCKET, **more})


if __name__ == "__main__":  # a server to try things by hand: bucket_servers.py radosgw|azurite|s3rver|moto; ends with its standard input
    with {"radosgw": Radosgw, "azurite": Azurite, "s3rver": S3rver, "moto": Moto}[sys.argv[1]](None) as one:
        print("\n".join(f"export {key}={value}" for key, value in one.environment().items()))
        print(one.url("try"), flush=True)
        sys.stdin.read()
