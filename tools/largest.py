"""largest: the ten longest Python functions and the ten longest files of the tree, for a reader of the CI log. It judges nothing."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = {".py", ".cpp", ".hpp", ".ts"}


def code_files() -> list[Path]:
    """Every file of code that is tracked."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if Path(name).suffix in CODE and (ROOT / name).is_file()]


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """The length and the place of each function of a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def ten(title: str, rows: list[tuple[int, str]]) -> None:
    """Prints the ten largest, the largest first."""
    print(title)
    for lines, place in sorted(rows, reverse=True)[:10]:
        print(f"  {lines:4} {place}")


if __name__ == "__main__":
    files = code_files()
    ten("longest functions (lines)", [row for path in files if path.suffix == ".py" for row in functions(path)])
    ten("longest files (lines)", [(path.read_text().count("\n"), str(path.relative_to(ROOT))) for path in files])
