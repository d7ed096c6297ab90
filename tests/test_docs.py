"""The docs say what the code does: commands, events, keys, arguments, links and examples."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tabellion import Pipeline, Queue, Worker
from tabellion.cli.app import _load_command, commands
from tabellion.config import known_keys, known_variables
from tabellion.engine.events import NAMES
from tabellion.engine.settlement import STATE_OF
from tabellion.installed_pipelines import installed_pipelines
from tabellion.monitor.metrics.database_metrics import BREAKER_STATES
from tabellion.monitor.verify import KINDS
from tabellion.web.pages.page import icons
from tests.deploy.expressions import exported
from tests.docs_navigation import problems

ROOT = Path(__file__).parent.parent
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*SITE, *sorted(ROOT.glob("[A-Z]*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("command", commands())
def test_every_command_is_documented(command: str) -> None:
    """docs/reference/cli.md has exactly one row for each command."""
    firsts = re.findall(r"^\| (`tabellion [^|]*)", page("reference/cli.md"), re.MULTILINE)
    named = [name for first in firsts for name in dict.fromkeys(re.findall(r"`tabellion ([\w-]+)", first))]
    assert named.count(command) == 1


@pytest.mark.parametrize("command", commands())
def test_every_option_is_documented(command: str) -> None:
    """The row of a command in docs/reference/cli.md names its options, except those that many commands have."""
    [row] = re.findall(rf"^\| [^|]*`tabellion {command}\b.*", page("reference/cli.md"), re.MULTILINE)
    everywhere = {"--data", "--environment", "--json"}
    for option in options_of(_load_command(commands()[command], command)) - everywhere:
        assert re.search(rf"{option}(?![\w-])", row), option


def options_of(command: Any) -> set[str]:
    """Return the long names of a command's options, and those of its subcommands."""
    own = {name for option in command.params for name in option.opts if name.startswith("--")}
    return own.union(*(options_of(one) for one in getattr(command, "commands", {}).values()))


def test_every_event_is_documented_with_its_meaning() -> None:
    """docs/reference/events.md lists exactly the existing events."""
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page("reference/events.md"), re.MULTILINE))
    assert set(listed) == set(NAMES)
    for name, meaning in NAMES.items():
        assert listed[name].startswith(meaning)


def test_every_metric_is_documented_with_its_labels() -> None:
    """docs/reference/metrics.md lists exactly the exported metrics: kind, labels and meaning."""
    rows = re.findall(
        r"^\| `(\w+)` \| (gauge|counter|histogram) \| (.+) \| (.+) \|$", page("reference/metrics.md"), re.MULTILINE
    )
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows}
    metrics = exported(installed_pipelines().values())
    assert len(listed) == len(rows)
    assert listed == {name: (one.kind, one.labels, one.help) for name, one in metrics.items()}


def test_every_value_of_a_label_is_documented() -> None:
    """docs/reference/metrics.md names the values of labels that the code writes out."""
    sources = [*(ROOT / "src/tabellion").glob("monitor/metrics/*.py"), *(ROOT / "src/tabellion").rglob("metrics.py")]
    written = {value for path in sources for value in re.findall(r'\b(?:state|result|sla)="(\w+)"', path.read_text())}
    assert {"alive", "busy", "idle", "in_review", "kept"} <= written
    for value in {*written, *BREAKER_STATES}:
        assert f"`{value}`" in page("reference/metrics.md"), value


def test_every_icon_is_documented() -> None:
    """The guide for pipelines lists exactly the icons that header entries can have."""
    listed = re.search(r"The icons are (.+?)\.", page("how-to/write-a-pipeline.md"), re.DOTALL)
    assert listed is not None
    assert re.findall(r"`([a-z]+)`", listed[1]) == sorted(icons())


def test_every_part_of_a_pipeline_is_documented() -> None:
    """The guide for pipelines names everything that a pipeline can override."""
    text = page("how-to/write-a-pipeline.md")
    own = {"is_present", "require", "prepare", "all_schemas", "extras"}  # what tabellion does with a pipeline
    for name in {name for name in vars(Pipeline) if not name.startswith("_")} - own:
        assert re.search(rf"`{name}[`(]", text), name


def test_every_key_and_variable_is_documented() -> None:
    """docs/reference/configuration.md lists exactly the existing keys, and every variable."""
    text = page("reference/configuration.md")
    assert set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)) == set(known_keys())
    for variable in known_variables():
        assert variable in text


def test_every_argument_is_documented() -> None:
    """docs/reference/queue.md and docs/reference/worker.md name each argument of Queue and Worker."""
    for function, text in (
        (Queue.__init__, page("reference/queue.md")),
        (Worker.__init__, page("reference/worker.md")),
    ):
        for name in inspect.signature(function).parameters:
            if name not in ("self", "environments", "queues"):
                assert f"`{name}`" in text, name


def test_every_outcome_is_documented() -> None:
    """docs/reference/register.md names each outcome."""
    for outcome in [*STATE_OF, "superseded"]:
        assert f"`{outcome}`" in page("reference/register.md")


def test_every_finding_of_verify_is_documented() -> None:
    """The guide to retention names each kind of finding, those of pipelines included."""
    sources = (ROOT / "src/tabellion/pipelines").rglob("verification.py")
    kinds = {
        kind for path in sources for kind in re.findall(r'(?:Violation|^    )\(\s*"(\w+)",', path.read_text(), re.M)
    }
    assert {"file_damaged", "item_lost", "job_lost", "tip_lost"} <= kinds
    for kind in kinds | set(KINDS):
        assert f"`{kind}`" in page("how-to/retention.md"), kind


def test_every_retention_rule_is_documented() -> None:
    """The guide says what each rule removes, and what stays."""
    rules = {key.removeprefix("retention.") for key in known_keys() if key.startswith("retention.")}
    assert rules == set(re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", page("how-to/retention.md"), re.MULTILINE))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site and GitHub name them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    """Every relative link points to an existing file, and to a heading that it has."""
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", FENCED.sub("", path.read_text())):
        if "://" not in target:
            there = path.parent / target if target else path
            assert there.exists(), f"{path.relative_to(ROOT)}: {target}"
            assert not anchor or anchor in anchors(there), f"{path.relative_to(ROOT)}: {target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    """The site's navigation lists every page once and nothing else, and every image exists."""
    assert problems() == []


@pytest.mark.parametrize("path", SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_says_what_it_is_for(path: Path) -> None:
    """A page begins with a title and then a sentence that says what it is for."""
    title, space, first = path.read_text().split("\n")[:3]
    assert re.fullmatch(r"# \S.*", title)
    assert space == ""
    assert re.match(r"[A-Z`*]", first), first
    assert re.search(r"\w[`*)]*\.( |$)", first), f"its first line ends no sentence: {first}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_examples_parse(path: Path) -> None:
    """Every Python example is valid Python."""
    for code in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        compile(code, str(path), "exec")


def test_every_image_is_used() -> None:
    """An image that no page shows is left over; `make screenshots` takes them again."""
    shown = {name for path in PAGES for name in re.findall(r"images/([\w-]+\.png)", path.read_text())}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown
