"""Evaluates rules: kinds are checked when the type is read, values when a document is.

A missing value makes everything computed from it null, `and`/`or` decide without it where they can, and a rule
that evaluates to null reports nothing.
"""

from __future__ import annotations

import ast
import difflib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal, DecimalException, localcontext
from typing import Any, NamedTuple

from tabellion.reading.types import pattern
from tabellion.reading.types.expression import RESERVED, ExpressionError
from tabellion.reading.types.functions import FUNCTIONS, MOST_ROWS, SEE_NULL, Function

SIGNS: dict[type[ast.AST], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv), ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
}  # fmt: skip
FARTHEST = 400_000  # days: more than all years of the calendar


class ValueKind(NamedTuple):
    """The kind of an expression's value: its base, and whether it is a column of such values."""

    base: str  #: number, text, date, bool, null or table
    many: bool = False

    def __str__(self) -> str:
        noun = {"table": "a list", "null": "null", "bool": "true or false"}.get(self.base, f"a {self.base}")
        return f"a column, each {noun}" if self.many else noun


Kinds = Mapping[str, ValueKind | Mapping[str, ValueKind]]  #: of fields; a list has the kinds of its columns


def check(expression: ast.expr, kinds: Kinds, *, tolerance: bool = False) -> None:
    """Rejects a rule that can never be evaluated: unknown fields, a date compared with a number, …"""
    kind = _Check(kinds, tolerance).kind(expression)
    if kind != ValueKind("bool"):
        hint = "; put all(…) around it" if kind == ValueKind("bool", True) else ""
        raise ExpressionError(f"a rule must be true or false; this is {kind}{hint}", 0)


class _Check:
    def __init__(self, kinds: Kinds, tolerance: bool) -> None:
        self.kinds, self.tolerance = kinds, tolerance

    def kind(self, node: ast.expr) -> ValueKind:
        match node:
            case ast.Constant(value=value):
                bases = {bool: "bool", Decimal: "number", str: "text"}
                return ValueKind(bases.get(type(value), "null"))
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.UnaryOp(op=sign, operand=inner):
                return self.needs(inner, "bool" if isinstance(sign, ast.Not) else "number")
            case ast.BoolOp(values=values):
                kinds = [self.needs(value, "bool") for value in values]
                return ValueKind("bool", any(kind.many for kind in kinds))
            case ast.BinOp():
                return self.arithmetic(node)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], left=inner, comparators=options):
                kind = self.kind(inner)
                for option in options:
                    if not isinstance(option, ast.Constant):
                        raise ExpressionError("`in` must be followed by literal texts or numbers", option)
                    self.same(kind, self.kind(option), option)
                return ValueKind("bool", kind.many)
            case ast.Compare():
                return self.comparison(node)
            case ast.Call(func=ast.Name(id=function)):
                return self.call(node, function)
        raise AssertionError(ast.dump(node))  # the parser accepts nothing else

    def name(self, node: ast.Name | ast.Attribute) -> ValueKind:
        name, column = _field(node)
        if name == "today":
            return ValueKind("date")
        if name == "tolerance":
            if not self.tolerance:
                raise ExpressionError("the rule uses `tolerance` but defines none: add `tolerance: 0.02`", node)
            return ValueKind("number")
        if name not in self.kinds:
            raise ExpressionError(f"unknown field {name!r}{_near(name, self.kinds)}", node)
        kind = self.kinds[name]
        if isinstance(kind, ValueKind):
            if column:
                raise ExpressionError(f"{name!r} is not a list: it has no columns", node)
            return kind
        if column is None:
            return ValueKind("table")
        if column not in kind:
            raise ExpressionError(f"{name!r} has no column {column!r}{_near(column, kind)}", node)
        return ValueKind(kind[column].base, many=True)

    def needs(self, node: ast.expr, base: str) -> ValueKind:
        kind = self.kind(node)
        if kind.base not in (base, "null"):
            raise ExpressionError(f"{ValueKind(base)} was expected here, but this is {kind}", node)
        return kind

    def same(self, left: ValueKind, right: ValueKind, at: ast.expr) -> None:
        if "table" in (left.base, right.base):
            raise ExpressionError("a list cannot be compared; compare count(…), sum(…) or a column", at)
        if left.base != right.base and "null" not in (left.base, right.base):
            raise ExpressionError(f"{left} and {right} cannot be compared", at)

    def comparison(self, node: ast.Compare) -> ValueKind:
        sides = [node.left, *node.comparators]
        kinds = [self.kind(side) for side in sides]
        for index, sign in enumerate(node.ops):
            left, right = kinds[index], kinds[index + 1]
            self.same(left, right, sides[index + 1])
            if "null" in (left.base, right.base):
                raise ExpressionError("null cannot be compared; write present(x) or empty(x)", sides[index])
            if left.base == "bool" and not isinstance(sign, ast.Eq | ast.NotEq):
                raise ExpressionError(f"true and false cannot be ordered with {SIGNS[type(sign)][0]!r}", sides[index])
        return ValueKind("bool", any(kind.many for kind in kinds))

    def arithmetic(self, node: ast.BinOp) -> ValueKind:
        sign = SIGNS[type(node.op)][0]
        left, right = self.kind(node.left), self.kind(node.right)
        many = left.many or right.many
        if (left.base, right.base) == ("date", "date") and sign == "-":
            return ValueKind("number", many)  # days between them
        if (left.base, right.base) == ("date", "number") and sign in "+-":
            return ValueKind("date", many)
        for kind, side in ((left, node.left), (right, node.right)):
            if kind.base != "number":
                raise ExpressionError(f"{sign!r} needs numbers; this is {kind}", side)
        return ValueKind("number", many)

    def call(self, node: ast.Call, name: str) -> ValueKind:
        function = FUNCTIONS.get(name)
        if function is None:
            raise ExpressionError(f"unknown function {name!r}{_near(name, FUNCTIONS)}", node)
        most = len(node.args) if function.repeats else len(function.takes)
        if not function.fewest <= len(node.args) <= most:
            expected = f"{function.fewest} or more" if function.repeats else f"{function.fewest}"
            raise ExpressionError(f"{name}() takes {expected} arguments, not {len(node.args)}", node)
        kinds = [self.argument(node, name, function, index) for index in range(len(node.args))]
        self.check_literals(node, name, function)
        if name == "where" and len({*_lists(node.args[0]), *_lists(node.args[1])}) > 1:
            raise ExpressionError("both columns of where() must come from one list", node.args[1])
        many = not function.whole and any(kind.many for kind in kinds)
        if function.gives == "same":
            bases = [kind.base for kind in kinds if kind.base != "null"]
            return ValueKind(bases[0] if bases else "null", name == "where" or many)
        return ValueKind(function.gives, many)

    def argument(self, node: ast.Call, name: str, function: Function, index: int) -> ValueKind:
        argument = node.args[index]
        expected = function.takes[min(index, len(function.takes) - 1)]
        kind = self.kind(argument)
        if expected == "field":
            if kind.many or not isinstance(argument, ast.Name):
                raise ExpressionError(f"{name}() takes the name of a field or of a list", argument)
        elif expected.startswith("column"):
            base = expected.removeprefix("column").strip()
            is_list = kind.base == "table" and name == "count"
            if not (kind.many or is_list) or (base and kind.base != base):
                description = f"a column, each {ValueKind(base)}" if base else "a column, as in line_items.amount"
                raise ExpressionError(f"{name}() takes {description}; this is {kind}", argument)
        elif expected == "any":
            self.same(self.kind(node.args[0]), kind, argument)
            if name in ("min", "max") and kind.many and len(node.args) > 1:
                raise ExpressionError(f"{name}() takes one column, or several single values", argument)
        elif kind.base not in (expected, "null"):
            raise ExpressionError(f"{name}() takes {ValueKind(expected)} here; this is {kind}", argument)
        return kind

    def check_literals(self, node: ast.Call, name: str, function: Function) -> None:
        for index, argument in enumerate(node.args):
            if min(index, len(function.takes) - 1) not in function.literal:
                continue
            if not isinstance(argument, ast.Constant):
                raise ExpressionError(f"this argument of {name}() must be a literal value", argument)
            if name == "matches" and (fault := pattern.fault(str(argument.value))):
                raise ExpressionError(fault, argument)
            if name == "date":
                try:
                    date.fromisoformat(str(argument.value))
                except ValueError:
                    raise ExpressionError('a date must be written as date("2013-01-31")', argument) from None
            if name == "round" and not (isinstance(argument.value, Decimal) and 0 <= argument.value <= 10):
                raise ExpressionError("round() takes 0 to 10 places", argument)


def _lists(node: ast.AST) -> Iterator[str]:
    """The lists whose rows a column has; rows that where() has chosen are a list of their own."""
    match node:
        case ast.Attribute():
            yield _field(node)[0]
        case ast.Call(func=ast.Name(id="where")):
            yield ast.dump(node)
        case ast.Call(func=ast.Name(id=name)) if FUNCTIONS[name].whole:
            return  # a single value
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _lists(part)


def _near(name: str, names: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(list(names)[:20])}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The inputs of a rule: the document's values in Python's types, its tolerance, and the date."""

    values: Mapping[str, Any]  #: Decimal, date, str, bool or None; a list of mappings of these
    tolerance: Decimal | None
    today: date


def holds(expression: ast.expr, scope: Scope) -> bool | None:
    """Whether the rule holds; None when it cannot be evaluated because a value is missing."""
    with localcontext(Context(prec=40)):
        value = _value(expression, scope)
    return value if isinstance(value, bool) else None


def _value(node: ast.expr, scope: Scope) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return _resolve_name(node, scope)
        case ast.UnaryOp(op=sign, operand=inner):
            return _each(operator.not_ if isinstance(sign, ast.Not) else operator.neg, _value(inner, scope))
        case ast.BoolOp(op=sign, values=operands):
            join = functools.partial(_each, _and if isinstance(sign, ast.And) else _or, nulls=True)
            return functools.reduce(join, [_value(inner, scope) for inner in operands])
        case ast.BinOp(op=sign, left=left, right=right):
            return _each(_arithmetic(SIGNS[type(sign)][1]), _value(left, scope), _value(right, scope))
        case ast.Compare(ops=[ast.In() | ast.NotIn() as sign], left=inner, comparators=options):
            allowed = [option.value for option in options if isinstance(option, ast.Constant)]
            is_in = isinstance(sign, ast.In)
            return _each(lambda value: (value in allowed) == is_in, _value(inner, scope))
        case ast.Compare(ops=signs, left=left, comparators=comparators):
            values = [_value(side, scope) for side in (left, *comparators)]
            result: Any = True
            for index, compare in enumerate(signs):
                result = _each(
                    _and, result, _each(SIGNS[type(compare)][1], values[index], values[index + 1]), nulls=True
                )
            return result
        case ast.Call(func=ast.Name(id=name), args=arguments):
            function = FUNCTIONS[name]
            evaluated = [_value(argument, scope) for argument in arguments]
            if not function.whole:
                return _each(_arithmetic(function.work), *evaluated, nulls=name in SEE_NULL)
            if name not in SEE_NULL and name not in ("min", "max") and any(value is None for value in evaluated):
                return None
            return _arithmetic(function.work)(*evaluated)
    raise AssertionError(ast.dump(node))


def _field(node: ast.Name | ast.Attribute) -> tuple[str, str | None]:
    """The name of the field, and of the column where it is a list."""
    if isinstance(node, ast.Name):
        return node.id, None
    return (node.value.id if isinstance(node.value, ast.Name) else ""), node.attr


def _resolve_name(node: ast.Name | ast.Attribute, scope: Scope) -> Any:
    name, column = _field(node)
    if name in RESERVED:
        return scope.today if name == "today" else scope.tolerance
    value = scope.values.get(name)
    if column is None:
        return value
    return None if value is None else [row.get(column) for row in value[:MOST_ROWS]]


def _each(work: Callable[..., Any], *values: Any, nulls: bool = False) -> Any:
    """Calls `work` with the values, row by row where one of them is a column; null in, null out."""
    rows = [len(value) for value in values if isinstance(value, list)]
    if rows:
        if len(set(rows)) > 1:
            return None  # columns of two lists with different lengths
        columns = [value if isinstance(value, list) else [value] * rows[0] for value in values]
        return [_each(work, *row, nulls=nulls) for row in zip(*columns, strict=True)]
    return None if not nulls and None in values else work(*values)


def _arithmetic(work: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `work`: what cannot be computed (a division by zero, a date beyond the calendar) is null."""

    def calculate(*values: Any) -> Any:
        if values and isinstance(values[0], date) and len(values) == 2:
            if isinstance(values[1], Decimal):
                if abs(values[1]) > FARTHEST:
                    return None
                values = (values[0], timedelta(days=int(values[1])))
            elif work is operator.sub:
                return Decimal((values[0] - values[1]).days)
        try:
            return work(*values)
        except (DecimalException, ZeroDivisionError, OverflowError):
            return None

    return calculate


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False
