"""Which source line of a variant called an op, read from its text: nothing is imported."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import attention

FORWARDS = "attention/forwards.py"

# Ops that Python writes as an operator.
_OPERATORS: dict[str, type[ast.operator]] = {"mul": ast.Mult, "div": ast.Div, "add": ast.Add}


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A statement of attention/forwards.py, its code on one line."""

    number: int
    code: str

    @property
    def place(self) -> str:
        return f"{FORWARDS} line {self.number}"


def source_line(function: str, op: str) -> str | None:
    """The first line of `function` that calls `op` ("aten::masked_fill"), quoted, or None."""
    line = next(_lines(function, op), None)
    return f"{line.place}: `{line.code}`" if line else None


def source_lines(function: str, op: str) -> tuple[SourceLine, ...]:
    """All lines of `function` that call `op`, as they stand in the file."""
    return tuple(_lines(function, op))


def _lines(function: str, op: str) -> Iterator[SourceLine]:
    """Functions of the same file that `function` calls are searched after it."""
    text, functions = _forwards()
    word = op.removeprefix("aten::")
    for name in _with_callees(function, functions):
        for statement in _simple_statements(functions[name]):
            if any(_calls(node, word) for node in ast.walk(statement)):
                code = " ".join((ast.get_source_segment(text, statement) or "").split())
                yield SourceLine(statement.lineno, code)


@lru_cache(maxsize=1)
def _forwards() -> tuple[str, dict[str, ast.FunctionDef]]:
    text = Path(attention.__file__ or "").with_name("forwards.py").read_text(encoding="utf-8")
    body = ast.parse(text).body
    return text, {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def _with_callees(function: str, functions: dict[str, ast.FunctionDef]) -> list[str]:
    if function not in functions:
        return []
    called = [
        node.func.id
        for node in ast.walk(functions[function])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return [function, *(name for name in dict.fromkeys(called) if name in functions)]


def _simple_statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Statements without a body of their own, so that an `if` is not quoted whole."""
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    for statement in sorted(statements, key=lambda node: node.lineno):
        if not hasattr(statement, "body"):
            yield statement


def _calls(node: ast.AST, word: str) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) is _OPERATORS.get(word)
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name == word
