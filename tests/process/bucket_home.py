"""The home conformance suite (tests/home/) against a bucket on a real server: the same cases as for a directory.

    bucket_home.py radosgw|azurite|moto
"""

import os
import pathlib
import re
import subprocess
import sys

from bucket_support import SERVERS
from harness import SOURCE, Root, check

LEAST_CASES = 25
SECONDS = 240


def main():
    where = sys.argv[1]
    program = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", SOURCE / "build")) / "bin" / "object_conformance_test"
    with Root("bucket_home") as root, SERVERS[where](root) as server:
        environment = root.environment({**server.environment(), "ONEPEN_TEST_HOME_URL": server.url("conformance")})
        done = subprocess.run([program, "--gtest_filter=given/*"], env=environment, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
        passed, failed = (set(re.findall(rf"^\[\s*{word}\s*\] (\S+)(?: \(|$)", done.stdout, re.M)) for word in ("OK", "FAILED"))
        failed -= {"tests,"}
        if failed or done.returncode != 0:
            print("\n".join(line for line in done.stdout.splitlines() if not re.match(r"^\[\s*(OK|RUN)\s*\]", line))[-6000:], done.stderr[-2000:], sep="\n")
        touched = server.client().keys("conformance/")
        check(len(passed | failed) >= LEAST_CASES and len(touched) > LEAST_CASES, "hardly any case ran against the bucket", len(passed), len(touched))
        print(f"bucket_home: {where}: the conformance suite left {len(touched)} objects in the bucket")
    print(f"{len(passed)} passed, {len(failed) + (done.returncode != 0 and not failed)} failed")
    return 1 if failed or done.returncode != 0 else 0


sys.exit(main())
