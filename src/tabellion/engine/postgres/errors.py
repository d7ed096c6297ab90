"""Translates the exceptions of PostgreSQL's driver to ours, so that no other module depends on the driver."""

from __future__ import annotations

import re

import asyncpg

from tabellion import errors

BAD_URL = "the database URL cannot be parsed; percent-encode / # @ : and ? in its password"
GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    OSError,
    TimeoutError,
    EOFError,
)


BUSY = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)


_RULES: dict[str, errors.TableRule] = {
    "23514": "check", "23505": "unique", "23P01": "unique", "23503": "reference", "23502": "null", "P0001": "trigger",
}  # fmt: skip
#: The server's functions that refuse a row or a query because of row-level security. Their SQLSTATE is that of any
#: missing right, and their sentence is in the server's language.
_BY_POLICY = {"ExecWithCheckOptions", "check_enable_rls"}
_FUNCTION = re.compile(r"function (\S+?)\(")


def translate_error(error: Exception, deadline: float) -> Exception:
    """The driver's exception as one of ours, with the rule of the table that was violated."""
    ours = _classify_error(error, deadline)
    if isinstance(ours, errors.StoreError) and isinstance(error, asyncpg.PostgresError):
        raised = _FUNCTION.search(error.context or "")
        ours.function = raised.group(1) if raised else ""
        ours.rule = "trigger" if raised else _RULES.get(error.sqlstate or "", "")
        ours.constraint = error.constraint_name or ""
    if isinstance(ours, errors.Forbidden) and isinstance(error, asyncpg.PostgresError):
        ours.by_policy = error.server_source_function in _BY_POLICY
    return ours


def _classify_error(error: Exception, deadline: float) -> Exception:
    text = str(error) or type(error).__name__
    if isinstance(error, errors.TabellionError):
        return error
    if isinstance(error, TimeoutError):
        return errors.Unreachable(f"no response from the database within {deadline:g} s")
    misfit = isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError)
    if misfit or isinstance(
        error,
        asyncpg.DataError | asyncpg.IntegrityConstraintViolationError | asyncpg.exceptions.DatatypeMismatchError,
    ):
        return errors.ValueRefused(text)
    if isinstance(error, asyncpg.UndefinedTableError) and "tabellion_" in text:
        return errors.NotMigrated(f"{text}: run `tabellion migrate`")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return errors.Forbidden(f"{text}: the database role needs this right (GRANT SELECT, INSERT, UPDATE …)")
    if isinstance(error, asyncpg.ClientConfigurationError):
        return errors.ConfigurationError(BAD_URL)
    if isinstance(error, BUSY):
        return errors.Busy(f"{type(error).__name__}: {text}")
    if isinstance(error, asyncpg.DiskFullError):
        return errors.Full(f"{type(error).__name__}: {text}")
    if isinstance(error, GONE):
        return errors.Unreachable(f"{type(error).__name__}: {text}")
    if isinstance(error, asyncpg.RaiseError):
        return errors.StoreError(text)  # the message that a trigger raised
    if isinstance(error, asyncpg.PostgresError):
        return errors.StoreError(f"{type(error).__name__}: {text}")
    return error
