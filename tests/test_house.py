"""The house's own rules: what an import costs, what is generated, what the laws say."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import forebay
from forebay.calls import CALLS, stem
from forebay.report.terms import find
from generated import generated

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "pyarrow", "cuda", "cupy", "numpy", "rich", "click", "msgspec", "forebay._core"}


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=True).stdout


def test_import_forebay_loads_nothing_heavy():
    loaded = python("-c", "import sys, forebay; print(*sys.modules)").split()
    assert HEAVY.intersection(loaded) == set()


def test_the_tape_needs_no_pyarrow_and_no_torch():
    loaded = python("-c", "import sys; from forebay import Tape, region; print(*sys.modules)").split()
    assert {"torch", "pyarrow", "cuda", "cupy"}.intersection(loaded) == set()


def test_the_front_door_has_at_most_15_names_and_the_docs_list_them():
    documented = re.findall(r"^## forebay\.(\w+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert documented == forebay.__all__
    assert len(forebay.__all__) <= 15
    assert [name for name in forebay.__all__ if not getattr(forebay, name).__doc__] == []


def test_a_name_that_the_front_door_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = forebay.nonsense
    assert set(forebay.__all__) <= set(dir(forebay))


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_generated_file_is_fresh(path):
    assert path.read_text(encoding="utf-8") == generated()[path], "run `make docs`"


def test_the_stubs_are_those_of_the_native_modules(tmp_path):
    python("-m", "nanobind.stubgen", "-q", "-r", "-m", "forebay._core", "-O", str(tmp_path))
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.pyi")}
    golden = ROOT / "src/forebay"
    kept = {path.relative_to(golden): path.read_text() for path in (golden / "_core").rglob("*.pyi")}
    assert made == kept, "run `make stubs`"


def test_bare_make_lists_the_targets():
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert {"run", "test", "stress", "lint", "docs", "bench", "test-gpu", "bench-gpu"} <= set(
        re.findall(r"make ([\w-]+)", listed)
    )


@pytest.mark.parametrize("target", ["test-gpu", "bench-gpu"])
def test_what_needs_a_gpu_says_in_one_line_what_it_lacks(target, monkeypatch):
    monkeypatch.setenv("FOREBAY_LIBCUDA", "no libcuda.so.1 here")
    done = subprocess.run(["make", "-s", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no libcuda.so.1 here" in done.stderr.splitlines()[0]


def test_the_versions_agree():
    assert version("forebay") == forebay.__version__


def steady(text):
    """Output without what differs from run to run."""
    return re.sub(r"in [\d.]+ s\b( \([^)]*\))?", "in SECONDS", text).rstrip()


def readme_blocks():
    """Each console block of the README: its command, and the output that it shows."""
    blocks = re.findall(r"```console\n\$ ([^\n]+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [pytest.param(command, shown, id=command) for command, shown in blocks]


def mentions_of_explain():
    """Each name that a source, a page or a message sends its reader to after "forebay explain"."""
    texts = [path for part in ("src", "native", "docs", "changes") for path in (ROOT / part).rglob("*") if path.is_file()]
    texts += [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    kept = [path for path in texts if path.suffix in {".py", ".cpp", ".hpp", ".md"}]
    found = {name for path in kept for name in re.findall(r"forebay explain ([A-Za-z][\w-]*)", path.read_text(encoding="utf-8"))}
    return sorted(found - {"NAME", "RULE", "alone"})


def test_every_name_that_a_text_sends_to_explain_is_there():
    assert "checkerboard-fragmentation" in mentions_of_explain()
    assert [name for name in mentions_of_explain() if find(name).name != stem(name)] == []


def test_every_decision_that_a_text_cites_is_there():
    there = {path.name[:4] for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    texts = [
        path for part in ("src", "native", "docs") for path in (ROOT / part).rglob("*") if path.suffix in (".py", ".hpp", ".cpp")
    ]
    cited = {(number, path.name) for path in texts for number in re.findall(r"docs/decisions/(\d{4})", path.read_text())}
    assert {(number, name) for number, name in cited if number not in there} == set()


def test_no_text_cites_a_document_that_is_not_in_the_repository():
    texts = [path for part in ("src", "native", "docs", "changes") for path in (ROOT / part).rglob("*") if path.is_file()]
    kept = [path for path in texts if path.suffix in {".py", ".hpp", ".cpp", ".md"} and "/src/forebay/_core" not in str(path)]
    assert [
        path.name for path in kept if re.search(r"DESIGN('s|,)? (section|statement|gauges|\")", path.read_text(encoding="utf-8"))
    ] == []


def test_every_gauge_of_the_design_can_be_explained():
    names = (
        "reserved allocated requested active pending cached releasable stranded largest_free largest_free_after_waits "
        "largest_free_if_idle largest_servable utilisation fragmentation hits misses driver_allocs driver_frees retries ooms event_waits"
    )
    assert [name for name in names.split() if "gauge" not in find(name).group] == []


def test_the_readme_counts_the_calls():
    assert f"each of {len(CALLS)} driver calls" in (ROOT / "README.md").read_text()


def test_make_bench_runs_every_benchmark():
    """What a benchmark needs of another file has a name that says so: `*_peer.py`, `*_program.py`."""
    programs = {path.name for path in (ROOT / "benchmarks").glob("*.py") if not re.search(r"_(peer|program)\.py$", path.name)}
    run = subprocess.run(["make", "-n", "bench"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "benchmarks/bench_*.py" in run
    by_python = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("bench_*.py"))
    assert [p.name for p in (ROOT / "benchmarks/native").glob("*.cpp") if f'native("{p.stem}")' not in by_python] == []
    assert [name for name in programs if not name.startswith("bench_")] == ["torch_workloads.py"]
    assert "torch_workloads" in (ROOT / "benchmarks/gpu/run.py").read_text(encoding="utf-8")  # what `make bench-gpu` runs


@pytest.mark.parametrize("program", sorted((ROOT / "benchmarks/native").rglob("*.cpp")), ids=lambda program: program.stem)
def test_a_native_benchmark_compiles(program):
    """Only its own file: a benchmark that nobody built would rot behind the code that it measures."""
    words = ["c++", "-std=c++20", "-fsyntax-only", "-DPAIRS=pairs", f"-I{ROOT / 'native'}", program]
    assert subprocess.run(words, capture_output=True, text=True, timeout=300, check=False).stderr == ""


def test_the_readme_shows_three_commands():
    assert len(readme_blocks()) == 3


@pytest.mark.parametrize(("command", "shown"), readme_blocks())
def test_a_command_of_the_readme_prints_what_it_shows(command, shown):
    made = ["make", "-s", "-o", ".venv/bin/.built", *command.split()[1:]] if command.startswith("make") else command.split()
    environment = os.environ | {"COLUMNS": "100"}
    done = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rstrip() for line in steady(done.stdout).splitlines()] == [line.rstrip() for line in steady(shown).splitlines()]
