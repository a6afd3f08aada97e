#!/usr/bin/env bash
# Installs a build into an empty prefix and builds and runs examples/cpp against it, found by find_package and by pkg-config.
#   scripts/check_install.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ninja -C "$build" onepen bin/onepen bin/onepen.so
cmake --install "$build" --prefix "$work/usr" >"$work/install.log"
for file in bin/onepen lib/onepen/onepen.so lib/libonepen.a lib/pkgconfig/onepen.pc lib/cmake/onepen/onepenConfig.cmake include/onepen/result.h share/man/man1/onepen.1; do
  [ -e "$work/usr/$file" ] || { echo "not installed: $file" && cat "$work/install.log" && exit 1; }
done
for header in "$root"/include/onepen/*; do
  [ -e "$work/usr/include/onepen/$(basename "$header")" ] || { echo "not installed: $header" && exit 1; }
done
[ "$("$work/usr/bin/onepen" version | head -n 1)" = "$("$build/bin/onepen" version | head -n 1)" ]

# run_example WHERE PROGRAM: the example works on a home of its own.
run_example() {
  mkdir "$work/$1-run"
  ONEPEN_CACHE="$work/$1-run/cache" "$2" "file://$work/$1-run/home" | tee "$work/$1-run/out"
  grep -q '^ok$' "$work/$1-run/out"
}

cmake -G Ninja -S "$root/examples/cpp" -B "$work/found" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log" && exit 1; }
ninja -C "$work/found"
run_example found "$work/found/standby"

export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig"
# shellcheck disable=SC2046  # the flags are words on purpose
g++ -std=c++20 "$root/examples/cpp/standby.cc" -o "$work/by-pkg-config" $(pkg-config --static --cflags --libs onepen)
run_example pkg "$work/by-pkg-config"
echo "installed tree serves find_package and pkg-config"
