#!/usr/bin/env bash
# Puts vllm-rs, vLLM's front end in Rust, into the virtual environment. The package for CPUs lacks it; it comes out of the
# wheel of vLLM itself (327 MB, of which 59 stay), of the version that is installed.
set -euo pipefail
bin=$(cd "${1:-.venv}/bin" && pwd)
version=$("$bin/python" -c 'from serving.edge.front_ends.rust_front_end import vllm_version; print(vllm_version())')
# One of another vLLM, from before an update, is fetched anew.
[ "$("$bin/vllm-rs" --version 2>/dev/null)" = "vllm-rs $version" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "Fetching vllm-rs out of the wheel of vLLM $version (327 MB) ..."
"$bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "vllm==$version" || {
    echo "Could not fetch the wheel of vLLM $version (above, pip says why): fetch it elsewhere, and set VLLM_RUST_FRONTEND_PATH to the file vllm/vllm-rs in it." >&2
    exit 1
}
"$bin/python" -m zipfile -e "$work"/vllm-*.whl "$work/wheel"
install -m 755 "$work/wheel/vllm/vllm-rs" "$bin/vllm-rs"
"$bin/vllm-rs" --version
