"""What a rule means: kinds are checked when the type is read, values when a document is.

A missing value makes everything computed from it null, `and`/`or` decide without it where they can, and a rule
that comes out as null says nothing about the document.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal, DecimalException, localcontext
from typing import Any, NamedTuple

from tabellion.reading.types import pattern
from tabellion.reading.types.expression import (
    RESERVED,
    Call,
    Comparison,
    Expression,
    ExpressionError,
    Literal,
    Membership,
    Name,
    Negation,
    Operation,
)
from tabellion.reading.types.functions import FUNCTIONS, MOST_ROWS, SEE_NULL, Function

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FARTHEST = 400_000  # days: more than all years of the calendar


class Kind(NamedTuple):
    """What an expression gives: its base, and whether it is a column of such values."""

    base: str  #: number, text, date, bool, null or table
    many: bool = False

    def __str__(self) -> str:
        noun = {"table": "a list", "null": "null", "bool": "true or false"}.get(self.base, f"a {self.base}")
        return f"a column, each {noun}" if self.many else noun


Kinds = Mapping[str, Kind | Mapping[str, Kind]]  #: of fields; a list has the kinds of its columns


def check(expression: Expression, kinds: Kinds, *, tolerance: bool = False) -> None:
    """Refuses a rule that could never be judged: unknown fields, a date compared with a number, …"""
    kind = _Check(kinds, tolerance).kind(expression)
    if kind != Kind("bool"):
        hint = "; put all(…) around it" if kind == Kind("bool", True) else ""
        raise ExpressionError(f"a rule must come out as true or false; this comes out as {kind}{hint}", 0)


class _Check:
    def __init__(self, kinds: Kinds, tolerance: bool) -> None:
        self.kinds, self.tolerance = kinds, tolerance

    def kind(self, of: Expression) -> Kind:
        match of:
            case Literal(value=value):
                bases = {bool: "bool", Decimal: "number", str: "text"}
                return Kind(bases.get(type(value), "null"))
            case Name():
                return self.name(of)
            case Negation(sign=sign, of=inner):
                return self.needs(inner, "bool" if sign == "not" else "number")
            case Operation(sign=sign, left=left, right=right):
                if sign in ("and", "or"):
                    return self.joined(self.needs(left, "bool"), self.needs(right, "bool"))
                return self.arithmetic(of)
            case Comparison():
                return self.comparison(of)
            case Membership(of=inner, options=options):
                found = self.kind(inner)
                for option in options:
                    if not isinstance(option, Literal):
                        raise ExpressionError("what follows `in` is written out: texts or numbers", option.at)
                    self.same(found, self.kind(option), option.at)
                return Kind("bool", found.many)
            case Call():
                return self.call(of)

    def name(self, of: Name) -> Kind:
        if of.name == "today":
            return Kind("date")
        if of.name == "tolerance":
            if not self.tolerance:
                raise ExpressionError("the rule speaks of `tolerance`, but gives none: add `tolerance: 0.02`", of.at)
            return Kind("number")
        if of.name not in self.kinds:
            raise ExpressionError(f"there is no field {of.name!r}{_near(of.name, self.kinds)}", of.at)
        found = self.kinds[of.name]
        if isinstance(found, Kind):
            if of.column:
                raise ExpressionError(f"{of.name!r} is not a list: it has no columns", of.at)
            return found
        if of.column is None:
            return Kind("table")
        if of.column not in found:
            raise ExpressionError(f"{of.name!r} has no column {of.column!r}{_near(of.column, found)}", of.at)
        return Kind(found[of.column].base, many=True)

    def needs(self, of: Expression, base: str) -> Kind:
        found = self.kind(of)
        if found.base not in (base, "null"):
            raise ExpressionError(f"{Kind(base)} was expected here, but this is {found}", of.at)
        return found

    @staticmethod
    def joined(left: Kind, right: Kind) -> Kind:
        return Kind("bool", left.many or right.many)

    def same(self, left: Kind, right: Kind, at: int) -> None:
        if "table" in (left.base, right.base):
            raise ExpressionError("a list cannot be compared; compare count(…), sum(…) or a column", at)
        if left.base != right.base and "null" not in (left.base, right.base):
            raise ExpressionError(f"{left} and {right} cannot be compared", at)

    def comparison(self, of: Comparison) -> Kind:
        kinds = [self.kind(side) for side in of.sides]
        for place, sign in enumerate(of.signs):
            left, right = kinds[place], kinds[place + 1]
            self.same(left, right, of.sides[place + 1].at)
            if "null" in (left.base, right.base):
                raise ExpressionError("nothing compares with null; write present(x) or empty(x)", of.sides[place].at)
            if left.base == "bool" and sign not in ("==", "!="):
                raise ExpressionError(f"true and false have no order for {sign!r}", of.sides[place].at)
        return Kind("bool", any(kind.many for kind in kinds))

    def arithmetic(self, of: Operation) -> Kind:
        left, right = self.kind(of.left), self.kind(of.right)
        many = left.many or right.many
        if (left.base, right.base) == ("date", "date") and of.sign == "-":
            return Kind("number", many)  # days between them
        if (left.base, right.base) == ("date", "number") and of.sign in "+-":
            return Kind("date", many)
        for kind, side in ((left, of.left), (right, of.right)):
            if kind.base != "number":
                raise ExpressionError(f"{of.sign!r} needs numbers; this is {kind}", side.at)
        return Kind("number", many)

    def call(self, of: Call) -> Kind:
        function = FUNCTIONS.get(of.function)
        if function is None:
            raise ExpressionError(f"there is no function {of.function!r}{_near(of.function, FUNCTIONS)}", of.at)
        most = len(of.arguments) if function.repeats else len(function.takes)
        if not function.fewest <= len(of.arguments) <= most:
            wanted = f"{function.fewest} or more" if function.repeats else f"{function.fewest}"
            raise ExpressionError(f"{of.function}() takes {wanted} arguments, not {len(of.arguments)}", of.at)
        kinds = [self.argument(of, function, place) for place in range(len(of.arguments))]
        self.written(of, function)
        many = not function.whole and any(kind.many for kind in kinds)
        if function.gives == "same":
            bases = [kind.base for kind in kinds if kind.base != "null"]
            return Kind(bases[0] if bases else "null", of.function == "where" or many)
        return Kind(function.gives, many)

    def argument(self, of: Call, function: Function, place: int) -> Kind:
        argument = of.arguments[place]
        wanted = function.takes[min(place, len(function.takes) - 1)]
        kind = self.kind(argument)
        if wanted == "field":
            if kind.many or not isinstance(argument, Name):
                raise ExpressionError(f"{of.function}() takes the name of a field or of a list", argument.at)
        elif wanted.startswith("column"):
            base = wanted.removeprefix("column").strip()
            listed = kind.base == "table" and of.function == "count"
            if not (kind.many or listed) or (base and kind.base != base):
                expected = f"a column, each {Kind(base)}" if base else "a column, as in line_items.amount"
                raise ExpressionError(f"{of.function}() takes {expected}; this is {kind}", argument.at)
        elif wanted == "any":
            self.same(self.kind(of.arguments[0]), kind, argument.at)
            if of.function in ("min", "max") and kind.many and len(of.arguments) > 1:
                raise ExpressionError(f"{of.function}() takes one column, or several single values", argument.at)
        elif kind.base not in (wanted, "null"):
            raise ExpressionError(f"{of.function}() takes {Kind(wanted)} here; this is {kind}", argument.at)
        return kind

    def written(self, of: Call, function: Function) -> None:
        for place, argument in enumerate(of.arguments):
            if min(place, len(function.takes) - 1) not in function.literal:
                continue
            if not isinstance(argument, Literal):
                raise ExpressionError(f"this argument of {of.function}() must be written out", argument.at)
            if of.function == "matches" and (fault := pattern.fault(str(argument.value))):
                raise ExpressionError(fault, argument.at)
            if of.function == "date":
                try:
                    date.fromisoformat(str(argument.value))
                except ValueError:
                    raise ExpressionError('a date is written date("2013-01-31")', argument.at) from None
            if of.function == "round" and not Decimal(0) <= Decimal(str(argument.value)) <= 10:
                raise ExpressionError("round() takes 0 to 10 places", argument.at)


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(list(known)[:20])}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a rule may see: the document's values in Python's types, its tolerance, and the day."""

    values: Mapping[str, Any]  #: Decimal, date, str, bool or None; a list of mappings of these
    tolerance: Decimal | None
    today: date


def holds(expression: Expression, scope: Scope) -> bool | None:
    """Whether the rule holds; None when it cannot be judged because something is missing."""
    with localcontext(Context(prec=40)):
        found = _value(expression, scope)
    return found if isinstance(found, bool) else None


def _value(of: Expression, scope: Scope) -> Any:
    match of:
        case Literal(value=value):
            return value
        case Name():
            return _named(of, scope)
        case Negation(sign=sign, of=inner):
            work = operator.not_ if sign == "not" else operator.neg
            return _each(work, _value(inner, scope))
        case Operation(sign=sign, left=left, right=right):
            work2 = {"and": _and, "or": _or}.get(sign) or SIGNS[sign]
            return _each(_arithmetic(work2), _value(left, scope), _value(right, scope), nulls=sign in ("and", "or"))
        case Comparison(sides=sides, signs=signs):
            values = [_value(side, scope) for side in sides]
            made: Any = True
            for place, sign in enumerate(signs):
                made = _each(_and, made, _each(SIGNS[sign], values[place], values[place + 1]), nulls=True)
            return made
        case Membership(of=inner, options=options):
            known = [option.value for option in options if isinstance(option, Literal)]
            return _each(known.__contains__, _value(inner, scope))
        case Call(function=name, arguments=arguments):
            function = FUNCTIONS[name]
            given = [_value(argument, scope) for argument in arguments]
            if not function.whole:
                return _each(_arithmetic(function.work), *given, nulls=name in SEE_NULL)
            if name not in SEE_NULL and name not in ("min", "max") and any(value is None for value in given):
                return None
            return _arithmetic(function.work)(*given)


def _named(of: Name, scope: Scope) -> Any:
    if of.name in RESERVED:
        return scope.today if of.name == "today" else scope.tolerance
    value = scope.values.get(of.name)
    if of.column is None:
        return value
    return None if value is None else [row.get(of.column) for row in value[:MOST_ROWS]]


def _each(work: Callable[..., Any], *given: Any, nulls: bool = False) -> Any:
    """The work on the values, row by row where one of them is a column; null in, null out."""
    rows = [len(value) for value in given if isinstance(value, list)]
    if rows:
        if len(set(rows)) > 1:
            return None  # columns of two lists that do not pair
        spread = [value if isinstance(value, list) else [value] * rows[0] for value in given]
        return [_each(work, *row, nulls=nulls) for row in zip(*spread, strict=True)]
    return None if not nulls and None in given else work(*given)


def _arithmetic(work: Callable[..., Any]) -> Callable[..., Any]:
    """What cannot be computed (a division by zero, a date beyond the calendar) is null."""

    def tried(*given: Any) -> Any:
        if given and isinstance(given[0], date) and len(given) == 2:
            if isinstance(given[1], Decimal):
                if abs(given[1]) > FARTHEST:
                    return None
                given = (given[0], timedelta(days=int(given[1])))
            elif work is operator.sub:
                return Decimal((given[0] - given[1]).days)
        try:
            return work(*given)
        except (DecimalException, ZeroDivisionError, OverflowError):
            return None

    return tried


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False
