"""Finds and reads profiles in YAML, and reports every mistake with its line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from tabellion.errors import ConfigurationError
from tabellion.pipelines.registries.profile import (
    MEANINGS,
    PLACEHOLDER,
    SECRETS,
    TIMEOUT,
    Meaning,
    PageProblem,
    Profile,
    Step,
    StepKind,
    Task,
)
from tabellion.reading.types import yamlnode
from tabellion.reading.types.yamlnode import ENDINGS, Mistakes, TypeFileError, YamlNode, parse

SHIPPED = Path(__file__).parent / "profiles"
FOLDER = Path("registries")  #: for profiles of your own, unless another is configured
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
KEYS = (
    "name", "title", "url", "login_form", "login", "dismiss", "problems", "timeout", "pause", "wait", "sessions",
    "tasks",
)  # fmt: skip
TASK_KEYS = ("inputs", "optional", "sample", "empty_is_done", "steps")
#: The keys of each step: required, then optional ones. A step written as one text is the first key.
STEPS: Mapping[StepKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "goto": (("value",), ()),
    "fill": (("selector", "value"), ()),
    "select": (("selector", "value"), ()),
    "check": (("selector",), ()),
    "click": (("selector",), ()),
    "wait_for": (("selector",), ()),
    "find": (("selector", "value"), ("next", "only")),
    "download": (("selector",), ()),
    "read": (("name", "fields"), ()),
    "collect": (("name", "selector", "fields"), ("next",)),
}
#: The names of keys in files, where they differ from those of `Step`.
WRITTEN = {("find", "selector"): "rows", ("find", "value"): "text", ("collect", "selector"): "rows",
           ("goto", "value"): "address", ("read", "name"): "as", ("collect", "name"): "as"}  # fmt: skip
SHORT = ("goto", "check", "click", "wait_for", "download")  #: steps that may be written as one text


def load(name: str | Path, folders: Sequence[str | Path] = (FOLDER,), portal: str = "") -> Profile:
    """A profile by its name, from these folders or those that ship, or by the path of its file."""
    if isinstance(name, Path) or str(name).endswith(ENDINGS):
        path = Path(name)
        if not path.is_file():
            raise ConfigurationError(f"{path}: file not found")
        return read(path.read_bytes(), str(path), portal)
    found = find_files(folders)
    if name not in found:
        raise ConfigurationError(f"unknown profile {name!r}; known: {', '.join(sorted(found))}")
    return read(found[name].read_bytes(), str(found[name]), portal)


def find_files(folders: Sequence[str | Path] = (FOLDER,)) -> dict[str, Path]:
    """The files of all profiles by name; those in the folders take precedence over those that ship."""
    return yamlnode.find_files(folders, SHIPPED)


def read(source: bytes | str, file: str = "<text>", portal: str = "") -> Profile:
    """Parses a profile; raises a TypeFileError that lists every mistake."""
    mistakes = Mistakes()
    profile = _ProfileReader(mistakes, file, portal).profile(parse(source, file))
    if mistakes.found or profile is None:
        raise TypeFileError(file, mistakes.found)
    raw = source if isinstance(source, bytes) else source.encode()
    return replace(profile, digest=hashlib.sha256(raw).hexdigest()[:16])


class _ProfileReader:
    """Reads the parts of a file."""

    def __init__(self, mistakes: Mistakes, file: str, portal: str) -> None:
        self._mistakes, self._file, self._portal = mistakes, file, portal

    def profile(self, root: YamlNode) -> Profile | None:
        entries = self._mistakes.map(root, "the profile", KEYS)
        for key in ("name", "url", "tasks"):
            if key not in entries:
                self._mistakes.add(root, f"{key} is missing", f"write {key}: …")
        name = self._text(entries, "name")
        if name and not NAME.fullmatch(name):
            self._mistakes.add(entries["name"][1], f"name {name!r} must be small letters, digits and hyphens")
        if name and self._file.endswith(ENDINGS) and Path(self._file).stem != name:
            self._mistakes.add(
                entries["name"][1], f"the file is called {Path(self._file).name}", f"rename it {name}.yaml"
            )
        login = self._steps(entries["login"][1], "login", SECRETS) if "login" in entries else ()
        form = self._text(entries, "login_form")
        if login and not form and "login_form" not in entries:
            self._mistakes.add(entries["login"][0], "login requires login_form: the selector of the sign-in form")
        tasks = self._tasks(entries["tasks"][1]) if "tasks" in entries else {}
        profile = Profile(
            name=name, title=self._text(entries, "title") or name, url=self._url(entries), tasks=tasks,
            file=self._file, login=login, login_form=form, problems=self._problems(entries),
            dismiss=self._mistakes.texts(entries["dismiss"][1], "dismiss") if "dismiss" in entries else (),
            timeout=self._number(entries, "timeout", TIMEOUT, 0.1, 600),
            pause=self._number(entries, "pause", 0.0, 0, 60),
            wait=self._number(entries, "wait", 300.0, 1, 86_400),
            sessions=int(self._number(entries, "sessions", 1, 1, 20)),
        )  # fmt: skip
        return None if self._mistakes.found else profile

    def _text(self, entries: Mapping[str, tuple[YamlNode, YamlNode]], key: str) -> str:
        return (self._mistakes.text(entries[key][1], key, longest=500) or "") if key in entries else ""

    def _number(
        self, entries: Mapping[str, tuple[YamlNode, YamlNode]], key: str, default: float, least: float, most: float
    ) -> float:
        if key not in entries:
            return default
        value = self._mistakes.number(entries[key][1], key, least, most)
        return default if value is None else float(value)

    def _url(self, entries: Mapping[str, tuple[YamlNode, YamlNode]]) -> str:
        url = self._text(entries, "url").replace("{portal}", self._portal.rstrip("/")).rstrip("/")
        if url and not re.match(r"https?://[^/\s@]+(/|$)", url):
            fix = "write https://host/path" if self._portal or "{portal}" not in url else "configure registries.portal"
            self._mistakes.add(entries["url"][1], f"url {url!r} is not a web address without a user name", fix)
        return url

    def _problems(self, entries: Mapping[str, tuple[YamlNode, YamlNode]]) -> tuple[PageProblem, ...]:
        if "problems" not in entries:
            return ()
        found = []
        for meaning, (at, node) in self._mistakes.map(entries["problems"][1], "problems", list(MEANINGS)).items():
            texts = self._mistakes.texts(node, f"problems.{at.text}")
            found += [PageProblem(text, cast(Meaning, meaning)) for text in texts]
        return tuple(found)

    def _tasks(self, node: YamlNode) -> dict[str, Task]:
        tasks = {}
        for name, (at, body) in self._mistakes.map(node, "tasks").items():
            if not WORD.fullmatch(name):
                self._mistakes.add(at, f"the task {name!r} must be small letters, digits and underscores")
            tasks[name] = self._task(name, body)
        if not tasks and node.kind == "map":
            self._mistakes.add(node, "tasks is empty", "write at least one task")
        return tasks

    def _task(self, name: str, node: YamlNode) -> Task:
        entries = self._mistakes.map(node, f"tasks.{name}", TASK_KEYS)
        inputs = self._mistakes.texts(entries["inputs"][1], "inputs") if "inputs" in entries else ()
        optional = self._mistakes.texts(entries["optional"][1], "optional") if "optional" in entries else ()
        sample = {}
        for key, (_, value) in (
            self._mistakes.map(entries["sample"][1], "sample", (*inputs, *optional)) if "sample" in entries else {}
        ).items():
            sample[key] = self._mistakes.text(value, f"sample.{key}") or ""
        if "steps" not in entries:
            self._mistakes.add(node, f"tasks.{name} has no steps", "write steps: with a list")
        steps = self._steps(entries["steps"][1], "steps", (*inputs, *optional)) if "steps" in entries else ()
        done = (
            self._mistakes.boolean(entries["empty_is_done"][1], "empty_is_done")
            if "empty_is_done" in entries
            else False
        )
        return Task(name, inputs, steps, optional, sample, done)

    def _steps(self, node: YamlNode, name: str, known: Sequence[str]) -> tuple[Step, ...]:
        if node.kind != "list":
            self._mistakes.add(node, f"{name} must be a list of steps", f'{name}:\n     - click: "#button"')
            return ()
        return tuple(step for item in node.items if (step := self._step(item, known)) is not None)

    def _step(self, node: YamlNode, known: Sequence[str]) -> Step | None:
        entries = self._mistakes.map(node, "a step", (*STEPS, "if"))
        kinds = [key for key in entries if key != "if"]
        if len(kinds) != 1:
            if node.kind == "map" and not (set(node.entries) - set(STEPS) - {"if"}):
                self._mistakes.add(node, "a step does one thing", f"write one of {', '.join(STEPS)}")
            return None
        kind = cast(StepKind, kinds[0])
        at, body = entries[kind]
        values = self._body(kind, body)
        for key in ("value", "selector"):
            self._check_placeholders(body, str(values.get(key, "")), known)
        if "if" in entries:
            condition = self._mistakes.one_of(entries["if"][1], "if", known)
            values["if_given"] = condition or ""
        return Step(kind=kind, line=at.line, **values)  # type: ignore[arg-type]

    def _body(self, kind: StepKind, body: YamlNode) -> dict[str, object]:
        required, optional = STEPS[kind]
        if kind in SHORT and body.kind == "scalar":
            return {required[0]: self._mistakes.text(body, kind) or ""}
        written = {WRITTEN.get((kind, key), key): key for key in (*required, *optional)}
        entries = self._mistakes.map(body, kind, written)
        values: dict[str, object] = {}
        for word, key in written.items():
            if word not in entries:
                if key in required and body.kind == "map":
                    self._mistakes.add(body, f"{kind} requires {word}")
                continue
            node = entries[word][1]
            if key == "only":
                values[key] = self._mistakes.boolean(node, word)
            elif key == "fields":
                values[key] = {
                    name: self._mistakes.text(inner, name) or ""
                    for name, (_, inner) in self._mistakes.map(node, word).items()
                }
            else:
                values[key] = self._mistakes.text(node, word) or ""
        return values

    def _check_placeholders(self, node: YamlNode, text: str, known: Sequence[str]) -> None:
        for name in PLACEHOLDER.findall(text):
            if name not in known:
                self._mistakes.add(node, f"unknown input {{{name}}}", f"known here: {', '.join(known) or 'none'}")
