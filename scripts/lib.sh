# Shared by ./run and ./test: what must be installed, and installing it. Sourced, with $root set to the top of the tree.

# say WORD...: one line on standard error, for people.
say() { printf '%s\n' "$*" >&2; }

# missing_packages SECTION...: the packages of these sections of scripts/packages.txt that are not installed, one a line.
missing_packages() {
  local section="" package command wanted
  while read -r package command _; do
    case "$package" in
      "" | "#"*) continue ;;
      "["*"]") section=${package//[\[\]]/} && continue ;;
    esac
    wanted=0
    for name in "$@"; do [ "$name" = "$section" ] && wanted=1; done
    [ "$wanted" = 1 ] || continue
    case "$command" in
      "") ;;
      /*) [ -e "$command" ] && continue ;;
      *) command -v "$command" >/dev/null 2>&1 && continue ;;
    esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
  done <"$root/scripts/packages.txt"
}

# ensure_packages SECTION...: installs what is missing, as root; says what to install otherwise.
ensure_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    say "onepen: these Debian packages are missing and only root can install them. As root, once:"
    say "    apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    return 1
  fi
  say "onepen: installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log
  log=$(mktemp)
  # The lists may be absent (a bare machine) or old: fetch them, and let the install decide whether they were good enough.
  apt-get update -qq >"$log" 2>&1 || true
  if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    say "onepen: apt-get could not install them; its last lines:"
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# build_product LOG: configures build/ and builds the two product binaries; quiet unless it fails or runs on a terminal.
build_product() {
  local log=$1 targets=(bin/onepen)
  [ -e "$root/extension/CMakeLists.txt" ] && targets+=(bin/onepen.so)
  mkdir -p "$(dirname "$log")"
  if ! (cd "$root" && cmake --preset release) >"$log" 2>&1; then
    say "onepen: configuring failed:" && tail -n 40 "$log" >&2
    return 1
  fi
  if [ -t 2 ]; then
    if (cd "$root" && ninja -C build "${targets[@]}") 2>&1 | tee -a "$log" >&2; then return 0; fi  # pipefail is on
  else
    (cd "$root" && ninja -C build "${targets[@]}") >>"$log" 2>&1 && return 0
    grep -E -A 12 'FAILED|error:' "$log" | head -n 60 >&2
  fi
  say "onepen: the build failed; the whole log is $log"
  return 1
}
