"""Each header compiles alone, as the product sees it (those named *_testing.h as the tests do).

    headers.py BUILD_FOLDER COMPILER
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    build, compiler = Path(sys.argv[1]), sys.argv[2]
    folder = build / "checks/headers"
    folder.mkdir(parents=True, exist_ok=True)
    flags = subprocess.run(["pkg-config", "--cflags", "libxxhash", "libzstd", "sqlite3"], capture_output=True, text=True, check=True).stdout.split()
    cached = [shutil.which("ccache")] if shutil.which("ccache") else []
    headers = sorted([*(ROOT / "include").rglob("*.h"), *(ROOT / "src").rglob("*.h")])

    def compile_alone(header):
        shown = header.relative_to(ROOT)
        name = str(header.relative_to(ROOT / shown.parts[0]))
        source = folder / (str(shown).replace("/", "_") + ".cc")
        text = f'#include "{name}"\n#include "{name}"  // twice: it guards itself\n'
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        for_tests = [f"-I{ROOT}", "-DONEPEN_TEST_HOOKS"] if shown.name.endswith("_testing.h") else []
        done = subprocess.run([*cached, compiler, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", f"-I{ROOT}/src", *for_tests, *flags, "-c", str(source), "-o",
                               str(source.with_suffix(".o"))], capture_output=True, text=True, env={**os.environ, "CCACHE_BASEDIR": str(ROOT)}, cwd=build, check=False)
        return shown, done.returncode == 0, done.stderr

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for shown, ok, errors in pool.map(compile_alone, headers):
            if not ok:
                failed += 1
                print(f"{shown} does not compile alone:\n" + "\n".join(errors.splitlines()[:12]))
    print(f"{len(headers) - failed} passed, {failed} failed")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
