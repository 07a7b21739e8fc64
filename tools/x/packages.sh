# Installing what a command needs, and nothing when it is there.

# The package groups that `command` needs on this distribution, one line each: "group or group ...".
needed_groups() {
  local command=$1 column=2
  if grep -qiE '^ID(_LIKE)?=.*ubuntu' /etc/os-release; then column=3; fi
  awk -F'|' -v command="$command" -v column="$column" '
    /^[^#]/ && (" " $4 " ") ~ (" " command " ") { gsub(/^ +| +$/, "", $column); print $column }' tools/packages.txt
}

# Prints the packages that are missing: of each line's alternatives the first that the distribution has.
missing_packages() {
  local command=$1 line group package installed
  installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | awk '$1 == "installed" {print $2}' | tr '\n' ' ')"
  while read -r line; do
    local first_available='' satisfied=''
    while read -r group; do
      local absent=''
      for package in $group; do
        [[ $installed == *" $package "* ]] || absent+=" $package"
      done
      if [[ -z $absent ]]; then satisfied=yes && break; fi
      if [[ -z $first_available ]] && apt-cache show $absent >/dev/null 2>&1; then first_available=$absent; fi
    done < <(sed 's/ or /\n/g' <<<"$line")
    [[ -n $satisfied ]] || echo "${first_available:-${line%% or *}}"
  done < <(needed_groups "$command")
}

install_packages() {
  local command=$1 as_root=()
  if ! command -v apt-get >/dev/null; then
    echo "x: no apt-get here; install by hand what tools/packages.txt lists for '$command'" >&2
    return 0
  fi
  [[ -n $(missing_packages "$command") ]] || return 0
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  if [[ ${#as_root[@]} -gt 0 ]] && ! command -v sudo >/dev/null; then
    echo "x: install as root: apt-get install" $(missing_packages "$command") >&2
    return 1
  fi
  # The lists are fetched before the second look, which also chooses between alternatives.
  "${as_root[@]}" apt-get update -qq
  local packages
  packages=$(missing_packages "$command")
  echo "x: installing" $packages >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2
}

# A virtual environment with the pinned tools of tools/requirements.txt, made again when that file changes.
install_python_tools() {
  local stamp=build/venv/requirements.txt
  cmp -s tools/requirements.txt "$stamp" && return 0
  python3 -m venv build/venv
  build/venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
  cp tools/requirements.txt "$stamp"
}
