"""Imports the user's module of queues; errors name its file and line."""

from __future__ import annotations

import importlib
import importlib.util
import site
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from tabellion.engine.queue import Queue
from tabellion.errors import ConfigurationError, DeclarationError
from tabellion.installed_pipelines import installed_pipelines

OURS = Path(__file__).parents[1]


def declared_queues(name: str) -> list[Queue]:
    """Every Queue in a module, given as `package.module` or as a file, in the order it declares them."""
    module = _import_file(Path(name)) if name.endswith(".py") else _import_module(name)
    unique: dict[int, Queue] = {id(value): value for value in vars(module).values() if isinstance(value, Queue)}
    if not unique:
        raise ConfigurationError(f"{name} declares no Queue at its top level")
    return list(unique.values())


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        file = Path(f"{name}.py")
        hint = f"did you mean {file}?" if file.is_file() else "write shop.queues, or a file that ends in .py"
        raise ConfigurationError(f"{name!r} is not a valid module name: {hint}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = f"; the queues of the pipeline {name} are --with {name}" if name in installed_pipelines() else ""
            raise ConfigurationError(
                f"there is no module {name!r} to import queues from (looked in {Path.cwd()} too){hint}"
            ) from error
        raise _explain(error) from error
    except (Exception, SystemExit) as error:
        raise _explain(error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.exists():
        raise ConfigurationError(f"{path}: file not found")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - the file is there and ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _explain(error, path) from error
    return module


def _explain(error: BaseException, path: Path | None = None) -> ConfigurationError | DeclarationError:
    """The error raised by importing the module, as one of ours."""
    where = _place(error)
    if isinstance(error, DeclarationError):
        return DeclarationError(f"{where}: {error.subject}", error.problems)
    if isinstance(error, ConfigurationError):
        return ConfigurationError(f"{where}: {error}")
    if isinstance(error, SyntaxError):
        return ConfigurationError(f"{where}: {error.msg}: this is not valid Python")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return ConfigurationError(f"{where}: there is no package {error.name!r} in this Python: install it")
    if isinstance(error, ImportError):
        relative = path is not None and "relative import" in str(error)
        hint = f": name it as a module, --queues {path.parent.name}.{path.stem}" if relative and path else ""
        return ConfigurationError(f"{where}: {error}{hint}")
    return ConfigurationError(f"{where}: {type(error).__name__}: {error}")


def _place(error: BaseException) -> str:
    """The last line of the user's own code in the traceback: libraries only pass an error on."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    user_frames = [(file, line) for file, line in frames if _is_users(file)]
    file, line = (user_frames or frames)[-1]
    return f"{_short(file)}, line {line}"


def _is_users(file: str) -> bool:
    if file.startswith("<"):
        return False  # the import system itself
    path = Path(file).resolve()
    libraries: list[str | Path] = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        sysconfig.get_path("stdlib"),
        OURS,
    ]
    return not any(path.is_relative_to(Path(folder).resolve()) for folder in libraries)


def _short(file: str) -> str:
    path = Path(file).absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
