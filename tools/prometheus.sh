#!/usr/bin/env bash
# Puts Debian's prometheus and promtool into the virtual environment, for tests: nothing is installed, no root is needed.
# Where both are in the PATH already, or apt is not there, it does nothing.
set -euo pipefail
bin=$(cd "${1:-.venv}/bin" && pwd)

[ -x "$bin/prometheus" ] && [ -x "$bin/promtool" ] && exit 0
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "No apt here to get Prometheus with: the tests that need one are skipped, unless both prometheus and promtool are in the PATH." >&2
    exit 0
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p state/lists/partial cache/archives/partial
user=(-qq -o "APT::Sandbox::User=$(id -un)")
# The machine's package lists may be empty, or older than the packages: then lists of our own.
own=("${user[@]}" -o "Dir::State=$work/state" -o "Dir::State::lists=$work/state/lists" -o "Dir::Cache=$work/cache" -o Dir::State::status=/var/lib/dpkg/status)
apt-get "${user[@]}" download prometheus 2>/dev/null ||
    { apt-get "${own[@]}" update && apt-get "${own[@]}" download prometheus; } || {
    echo "Could not get Debian's prometheus (above, apt says why): check that the machine reaches a Debian mirror, or put prometheus and promtool into the PATH." >&2
    exit 0
}
dpkg-deb -x prometheus_*.deb package
install -m 755 package/usr/bin/prometheus package/usr/bin/promtool "$bin"
