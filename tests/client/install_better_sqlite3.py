"""Installs better-sqlite3@12 from the npm registry into <build>/client-node, built from source against the headers of the installed Node.

Once per build folder: a stamp names what is there. Where Debian's Node is older than the package wants, the build still works from its headers
(package libnode-dev); nothing but the registry is asked.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

VERSION = "12"
FOLDER = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", pathlib.Path(__file__).resolve().parent.parent.parent / "build")) / "client-node"
PROBE = "const D = require('better-sqlite3'); console.log(new D(':memory:').prepare('SELECT sqlite_version()').pluck().get())"


def works():
    done = subprocess.run([str(FOLDER / "node"), "-e", PROBE], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def main():
    node = shutil.which("node", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("node")
    if node is None or shutil.which("npm") is None:
        print("client_better_sqlite3: node or npm is missing (scripts/packages.txt)")
        return 1
    stamp = FOLDER / "stamp"
    wanted = f"{VERSION} {subprocess.run([node, '--version'], capture_output=True, text=True, check=True).stdout.strip()}"
    version = works() if stamp.exists() and stamp.read_text() == wanted else None
    if version is None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        os.symlink(node, FOLDER / "node")
        (FOLDER / "package.json").write_text(json.dumps({"private": True}))
        # From source: the prebuilt binaries lie outside the registry. nodedir: no headers are fetched either.
        environment = {**os.environ, "npm_config_build_from_source": "true", "npm_config_nodedir": "/usr", "npm_config_audit": "false", "npm_config_fund": "false"}
        done = subprocess.run(["npm", "install", f"better-sqlite3@{VERSION}"], cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
        version = works()
        if done.returncode != 0 or version is None:
            print(f"client_better_sqlite3: npm install ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
            return 1
        stamp.write_text(wanted)
    package = json.loads((FOLDER / "node_modules/better-sqlite3/package.json").read_text())
    print(f"client_better_sqlite3: better-sqlite3 {package['version']} with SQLite {version} on Node {wanted.split()[1]}")
    return 0


sys.exit(main())
