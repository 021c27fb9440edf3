"""run: what only a GPU can show, with the Python at hand and nothing fetched: builds the package into a folder of its own, holds
cuda_abi.hpp to the machine's cuda.h, and runs the driver suites, the driver facts, the runtime over CUDA and other libraries with our
buffers. Answers 0 where all of it passed. Results: `gpu-tests.json` in $OUT, else in build/gpu-results.
"""

import ctypes
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "gpu-site"
CONFORMANCE = [f"tests/conformance/test_{suite}.py" for suite in ("driver", "captures", "capture_calls")]
RUNTIME = [f"tests/runtime/test_{suite}.py" for suite in ("cuda", "cuda_captures", "borrow")]
SUITES = [*CONFORMANCE, "tests/driver", "tests/driver_facts", *RUNTIME, "tests/gpu"]
LIBCUDA = os.environ.get("FOREBAY_LIBCUDA", "libcuda.so.1")
CAPTURED = {"capture_output": True, "text": True, "check": False}
LIBRARIES = ["torch", "cupy", "cuda.core"]


def build() -> None:
    """Into SITE: scikit-build-core, nanobind, CMake and ninja are the machine's."""
    shutil.rmtree(SITE, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", str(SITE), "--config-settings=build.tool-args=-k0", str(ROOT)], **CAPTURED)
    if done.returncode:
        sys.exit("\n".join(line for line in done.stderr.splitlines() if "error" in line.lower()) or done.stderr)


def abi_agrees() -> bool:
    """Whether our declarations are those of this machine's cuda.h. Without one it cannot be told, and that fails too."""
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", nvcc and str(Path(nvcc).resolve().parents[1])]
    headers = [Path(home) / "include" for home in homes if home and (Path(home) / "include" / "cuda.h").exists()]
    if not headers:
        print("no cuda.h: set CUDA_HOME to a CUDA toolkit", file=sys.stderr)
        return False
    program = str(ROOT / "build" / "abi_check")
    compiler = [os.environ.get("CXX", "c++"), "-std=c++20", f"-I{ROOT / 'native'}", f"-I{headers[0]}"]
    made = subprocess.run([*compiler, str(ROOT / "tests/gpu/abi_check.cpp"), "-o", program], check=False)
    return made.returncode == 0 and subprocess.run([program], check=False).returncode == 0


def there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def tested(suite: str, report: Path) -> bool:
    """A suite in a process of its own: what it leaves in libcuda no other meets."""
    env = dict(os.environ, PYTHONPATH=str(SITE), FOREBAY_LIBCUDA=LIBCUDA)
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "filterwarnings=default"]
    extra = ["-rf", "--tb=short", f"--junit-xml={report}"]
    return subprocess.run([*pytest, *extra, *sys.argv[1:], suite], cwd=ROOT, env=env, check=False).returncode == 0


def counts(reports: list[Path]) -> dict[str, dict[str, int]]:
    """Of each test file: how many passed, failed, and had nothing to run over on this machine. A suite that crashed left no report."""
    files: dict[str, dict[str, int]] = {}
    for case in [case for report in reports if report.exists() for case in ElementTree.parse(report).iter("testcase")]:
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        name = {"failure": "failed", "error": "failed", "skipped": "nothing to run over"}.get(outcome, outcome)
        file = files.setdefault(case.get("classname", "").removeprefix("tests."), {})
        file[name] = file.get(name, 0) + 1
    return files


def missing_driver() -> str | None:
    try:
        ctypes.CDLL(LIBCUDA)
    except OSError as error:
        return f"test-gpu: {error}: a GPU and NVIDIA's driver are needed; `make test` runs every test that needs neither"
    return None


def main() -> int:
    if said := missing_driver():
        print(said, file=sys.stderr)
        return 2
    results = Path(os.environ.get("OUT") or ROOT / "build" / "gpu-results")
    results.mkdir(parents=True, exist_ok=True)
    build()
    abi, work = abi_agrees(), Path(tempfile.mkdtemp())
    reports = [work / f"{number}.xml" for number in range(len(SUITES))]
    outcomes = [tested(suite, report) for suite, report in zip(SUITES, reports, strict=True)]  # all of them, whatever failed
    passed = all(outcomes)
    smi = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(smi, **CAPTURED).stdout.split("\n") if shutil.which(smi[0]) else []
    missing = [name for name in LIBRARIES if not there(name)]
    facts = {
        "gpus": [g for g in gpus if g],
        "python": platform.python_version(),
        "abi_agrees": abi,
        "passed": passed,
        "not_tested_with": missing,
        "tests": counts(reports),
    }
    (results / "gpu-tests.json").write_text(json.dumps(facts, indent=1) + "\n")
    for name in missing:
        print(f"not tested with {name}: it is not installed", file=sys.stderr)
    return 0 if abi and passed else 1


if __name__ == "__main__":
    sys.exit(main())
