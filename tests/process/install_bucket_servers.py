"""Installs azurite (Azure Blob) and s3rver (an S3 server without conditions) from the npm registry into <build>/bucket-node. Once per build folder.

    install_bucket_servers.py moto     moto from PyPI into <build>/bucket-moto, a third S3 server for the nights
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

PACKAGES = ("azurite@3.35.0", "s3rver@3.7.1")
MOTO = "moto[s3,server]==5.2.5"
FOLDER = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", pathlib.Path(__file__).resolve().parent.parent.parent / "build")) / "bucket-node"


def version(package):
    file = FOLDER / "node_modules" / package.partition("@")[0] / "package.json"
    return json.loads(file.read_text())["version"] if file.exists() else None


def moto():
    """In an environment of its own."""
    folder = FOLDER.with_name("bucket-moto")
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != MOTO:
        shutil.rmtree(folder, ignore_errors=True)
        for command in (["/usr/bin/python3", "-m", "venv", folder], [folder / "bin" / "pip", "install", "--quiet", MOTO]):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"install_bucket_servers: {' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
                return 1
        stamp.write_text(MOTO)
    print(f"install_bucket_servers: {MOTO}")
    return 0


def main():
    stamp = FOLDER / "stamp"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        (FOLDER / "package.json").write_text(json.dumps({"private": True}))
        # Without the scripts of packages: nothing is built or fetched beyond the registry.
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES], cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"install_bucket_servers: npm install ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
            return 1
        stamp.write_text(" ".join(PACKAGES))
    found = {package: version(package) for package in PACKAGES}
    print("install_bucket_servers: " + ", ".join(f"{package.partition('@')[0]} {number}" for package, number in found.items()))
    return 0 if all(package.endswith("@" + str(number)) for package, number in found.items()) else 1


sys.exit(moto() if sys.argv[1:] == ["moto"] else main())
