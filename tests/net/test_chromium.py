"""A real Chromium behind the guard: what its pages reach, what it keeps, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Error

from tabellion.errors import ConfigurationError
from tabellion.extras import PackageMissingError
from tabellion.net import browser_parent, chromium
from tabellion.net.browsing import BrowserDied, BrowserFailed, _file_name
from tabellion.net.chromium import Chromium
from tabellion.net.guard import Blocked, Rules
from tests.browser.chromium import find, why_not
from tests.models.scripted import Answer, RecordedRequest, ScriptedServer
from tests.waiting import eventually

HOME, OTHER, REFUSED = "127.0.0.2", "127.0.0.4", "127.0.0.3"
NAMES = {"home.example": HOME, "private.example": REFUSED}
HTML = {"content-type": "text/html"}
#: Every way in which a page can ask for something; each names itself in the path.
ASKING = """<!doctype html><title>asking</title>
<link rel="preconnect" href="{target}"><link rel="prefetch" href="{target}/prefetch">
<img src="{target}/image"><iframe src="{target}/frame"></iframe><img src="/away">
<script src="{target}/script"></script><link rel="stylesheet" href="{target}/style">
<script>
const settled = (promise) => promise.then(() => 1, () => 1);
const socket = new Promise((done) => {{
  const one = new WebSocket("{target}/socket".replace("http", "ws"));
  one.onopen = one.onerror = done;
}});
const inside = new Worker(URL.createObjectURL(new Blob(
  [`fetch("{target}/worker", {{mode: "no-cors"}}).then(() => postMessage(1), () => postMessage(1))`])));
const worker = new Promise((done) => {{ inside.onmessage = done; }});
navigator.sendBeacon("{target}/beacon");
addEventListener("load", async () => {{
  await Promise.all([settled(fetch("{target}/fetch", {{mode: "no-cors"}})), socket, worker]);
  document.title = "asked";
}});
</script>"""
WAYS = {"image", "frame", "redirect", "script", "style", "fetch", "socket", "worker", "beacon"}
#: A program of ours with an open browser, until it is killed.
OWNER = """import asyncio, sys, pathlib
from tabellion.net.chromium import Chromium
async def main():
    async with Chromium() as chromium, chromium.open_session(pathlib.Path(sys.argv[1])) as session:
        page = await session.new_page()
        print(chromium.folder, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The browser's event loop."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def browser(runner: asyncio.Runner) -> Iterator[Chromium]:
    """A guarded browser, started once, which may reach two addresses of loopback."""

    async def resolve(host: str, _port: int) -> list[str]:
        return [NAMES[host]]

    one = Chromium(replace(Rules.of([f"{HOME}/32", f"{OTHER}/32"]), resolver=resolve), program=find())
    yield one
    runner.run(one.close())


@asynccontextmanager
async def site(host: str, script: Callable[[RecordedRequest], Answer]) -> AsyncIterator[ScriptedServer]:
    """Run a server on an address of loopback."""
    running = ScriptedServer(script)
    server = await asyncio.start_server(running.serve, host, 0)
    running.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()


def page(text: str) -> Callable[[RecordedRequest], Answer]:
    return lambda _: Answer(text.encode(), 200, HTML)


def family(pid: int) -> dict[int, str]:
    """Return the descendants of a process, with their start times."""
    return {one: browser_parent.read_start_time(one) for one in browser_parent._descendants(pid)}


def left(processes: dict[int, str]) -> list[int]:
    return [
        pid for pid, began in processes.items() if browser_parent.read_start_time(pid) == began and not is_zombie(pid)
    ]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.parametrize("host", [OTHER, REFUSED], ids=["allowed", "refused"])
def test_a_page_reaches_what_is_allowed_and_nothing_else(
    host: str, runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """By image, frame, script, style, fetch, worker, beacon, web socket and redirect alike."""

    async def story() -> tuple[set[str], list[str]]:
        async with site(host, page("")) as target:

            def answer(request: RecordedRequest) -> Answer:
                if request.path == "/away":
                    return Answer(b"", 302, {"location": f"{target.url}/redirect"})
                return Answer(ASKING.format(target=target.url).encode(), 200, HTML)

            async with site(HOME, answer) as home, browser.open_session(tmp_path) as session:
                one = await session.new_page()
                await session.visit(one, home.url)
                await one.wait_for_function("document.title === 'asked'")
                if host == OTHER:  # the last ones may be on their way
                    async with asyncio.timeout(30):
                        while not {request.path[1:] for request in target.asked} >= WAYS:
                            await asyncio.sleep(0.01)
                return {request.path[1:] for request in target.asked}, [one.host for one in session.refused_addresses]

    arrived, refused = runner.run(story())
    if host == OTHER:
        assert arrived >= WAYS
        assert refused == []
    else:
        assert arrived == set()
        assert refused == [REFUSED]


def test_a_page_sends_no_datagrams(runner: asyncio.Runner, browser: Chromium, tmp_path: Path) -> None:
    """WebRTC and WebTransport would bypass the proxy."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((HOME, 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    script = """async ([host, port]) => {
        const one = new RTCPeerConnection({iceServers: [{urls: `stun:${host}:${port}`}]});
        one.createDataChannel("x");
        const gathered = new Promise((done) => {
            one.onicegatheringstatechange = () => one.iceGatheringState === "complete" && done();
        });
        await one.setLocalDescription(await one.createOffer());
        const transport = window.WebTransport ? new WebTransport(`https://${host}:${port}/`).ready.catch(() => 1) : 1;
        await Promise.all([gathered, transport]);
        return one.localDescription.sdp;
    }"""

    async def story() -> str:
        async with site(HOME, page("x")) as home, browser.open_session(tmp_path) as session:
            one = await session.new_page()
            await session.visit(one, home.url)
            return str(await one.evaluate(script, [HOME, port]))

    with listening:
        assert "typ srflx" not in runner.run(story())
        with pytest.raises(BlockingIOError):
            listening.recv(2000)


def test_a_name_that_points_to_a_private_address_is_refused(
    runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """The address decides, not the name; a redirect is treated like a URL."""

    async def story() -> list[str]:
        async with site(REFUSED, page("secret")) as target:
            port = target.url.rpartition(":")[2]
            away = Answer(b"", 302, {"location": f"http://private.example:{port}/"})
            async with site(HOME, lambda _: away) as home, browser.open_session(tmp_path) as session:
                one = await session.new_page()
                for scheme in ("http", "https"):
                    with pytest.raises(Blocked, match="not a public address"):
                        await session.visit(one, f"{scheme}://private.example:{port}/")
                with pytest.raises(Blocked, match="not a public address"):
                    await session.visit(one, f"http://home.example:{home.url.rpartition(':')[2]}/")
                assert len(home.asked) == 1
                assert target.asked == []
                return [str(one) for one in session.refused_addresses]

    [refusal] = runner.run(story())
    assert refusal.startswith("private.example:")
    assert refusal.endswith(" was refused: its host is not a public address")


def test_files_of_this_machine_are_not_pages(runner: asyncio.Runner, browser: Chromium, tmp_path: Path) -> None:
    """Neither the caller nor a page can open them."""
    (tmp_path / "secret.html").write_text("<title>secret</title>")

    async def story() -> None:
        async with browser.open_session(tmp_path) as session:
            one = await session.new_page()
            with pytest.raises(Blocked, match="only http and https"):
                await session.visit(one, f"file://{tmp_path}/secret.html")
            with pytest.raises(Error, match="ERR_ACCESS_DENIED"):
                await one.goto(f"file://{tmp_path}/secret.html")
            assert await one.title() != "secret"

    runner.run(story())


def test_a_site_that_asks_for_a_password_does_not_get_that_of_the_proxy(
    runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """It gets only the password that the caller passes for it."""
    challenge = Answer(b"", 401, {"www-authenticate": 'Basic realm="x"'})

    async def story(options: dict[str, object]) -> list[str]:
        async with site(HOME, lambda _: challenge) as home:
            async with browser.open_session(tmp_path, options=options) as session:
                with contextlib.suppress(Error):  # it has no page to show to those who have no password
                    await session.visit(await session.new_page(), home.url)
            return [request.headers["authorization"] for request in home.asked if "authorization" in request.headers]

    assert runner.run(story({})) == []
    assert runner.run(story({"http_credentials": {"username": "a", "password": "b"}})) == ["Basic YTpi"]


def test_a_download_lands_in_the_folder_of_its_session(
    runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """Two downloads get two names, and are stored nowhere else."""
    headers = {"content-type": "application/pdf", "content-disposition": 'attachment; filename="../../index.pdf"'}

    def answer(request: RecordedRequest) -> Answer:
        return Answer(b"%PDF-1", 200, headers) if request.path == "/file" else Answer(b"<a href=/file>x", 200, HTML)

    async def story() -> list[Path]:
        async with site(HOME, answer) as home, browser.open_session(tmp_path / "mine") as session:
            one = await session.new_page()
            await session.visit(one, home.url)
            found = []
            for _ in range(2):
                async with one.expect_download() as expected:
                    await one.click("a")
                found.append(await session.save_download(await expected.value))
            return found

    found = runner.run(story())
    assert sorted(found) == sorted((tmp_path / "mine").iterdir())
    assert [path.read_bytes() for path in found] == [b"%PDF-1"] * 2
    assert [path.suffix for path in found] == [".pdf"] * 2
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b.pdf", "a_b.pdf"),
        ("..", "download"),
        ("é n°1.pdf", "é n°1.pdf"),
        ("x\n\0.pdf", "x__.pdf"),
        ("", "download"),
    ],
)
def test_names_of_files_stay_in_their_folder(name: str, safe: str) -> None:
    """Slashes and unprintable characters are replaced; long names are cut before their extension."""
    assert _file_name(name) == safe
    assert len(_file_name("x" * 300 + ".pdf")) <= 120
    assert _file_name("x" * 300 + ".pdf").endswith("x.pdf")


def test_a_stored_session_is_used_again_and_others_do_not_see_it(
    runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """Only its owner may read the file; a broken file is ignored."""
    state = tmp_path / "states" / "account.json"
    cookie = {"set-cookie": "sid=1; Max-Age=99"}

    async def visit(home: ScriptedServer, path: Path | None) -> str:
        async with browser.open_session(tmp_path, state=path) as session:
            await session.visit(await session.new_page(), home.url)
            if path is not None:
                await session.save_state()
            return home.asked[-1].headers.get("cookie", "") if home.asked[-1].path == "/" else "?"

    async def story() -> list[str]:
        async with site(HOME, lambda request: Answer(b"x", 200, HTML | cookie)) as home:
            found = [await visit(home, one) for one in (state, state, None, state)]
            state.write_text("{")
            return [*found, await visit(home, state)]

    assert runner.run(story()) == ["", "sid=1", "", "sid=1", ""]
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert list(state.parent.iterdir()) == [state]


def test_a_browser_that_dies_shows_no_typed_text(runner: asyncio.Runner, browser: Chromium, tmp_path: Path) -> None:
    """Playwright's error lists the text that was being filled in; the one that is raised has no such cause."""

    async def story() -> None:
        async with site(HOME, page("<input id=secret disabled>")) as home, browser.open_session(tmp_path) as session:
            one = await session.new_page()
            await session.visit(one, home.url)
            filling = asyncio.create_task(one.fill("#secret", "Canari-Saisi-1"))
            await one.evaluate("new Promise((done) => setTimeout(done, 300))")  # until the attempt to fill is recorded
            end("--type=renderer")
            await filling

    with pytest.raises(BrowserDied) as raised:
        runner.run(story())
    assert "Canari-Saisi-1" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("victim", ["--type=renderer", "browser", "run-driver"])
def test_a_browser_that_dies_is_a_retryable_error(
    victim: str, runner: asyncio.Runner, browser: Chromium, tmp_path: Path
) -> None:
    """The page's process, the whole browser, or its driver: the next session works."""

    async def story() -> None:
        async with site(HOME, page("<title>here</title>")) as home:

            async def work(kill: bool) -> str:
                async with browser.open_session(tmp_path) as session:
                    one = await session.new_page()
                    await session.visit(one, home.url)
                    if kill:
                        end(victim)
                    return await one.evaluate("new Promise((done) => setTimeout(done, 60000))") if kill else "fine"

            with pytest.raises(BrowserDied, match="next attempt gets a new one"):
                await work(kill=True)
            assert await work(kill=False) == "fine"

    runner.run(story())


def end(victim: str) -> None:
    """Kill a process of the browser that this test runs."""
    below = {pid: command_line(pid) for pid in family(os.getpid())}
    mains = [pid for pid, line in below.items() if "--user-data-dir" in line and "--type=" not in line]
    chosen = {
        "browser": [pid for pid in mains if "browser_parent" not in below[pid]],
        "run-driver": [pid for pid, line in below.items() if line.endswith("run-driver ")],
    }
    for pid in chosen.get(victim) or [pid for pid, line in below.items() if victim in line]:
        with contextlib.suppress(ProcessLookupError):  # of several, the first may take the others with it
            os.kill(pid, signal.SIGKILL)


def test_a_session_that_takes_too_long_is_ended(runner: asyncio.Runner, browser: Chromium, tmp_path: Path) -> None:
    """A script that never ends does not block us, although Playwright itself would wait for it."""

    async def story() -> None:
        with pytest.raises(BrowserFailed, match=r"longer than 0\.5 s"):
            async with browser.open_session(tmp_path, seconds=0.5) as session:
                await (await session.new_page()).evaluate("() => { while (true); }")
        async with browser.open_session(tmp_path) as session:
            assert await (await session.new_page()).evaluate("1 + 1") == 2

    runner.run(story())


def test_the_browser_knows_no_secret_of_ours(
    runner: asyncio.Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment has only what it needs, and closing it leaves nothing behind."""
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")

    async def story() -> tuple[list[bytes], dict[int, str], Path | None]:
        async with Chromium(program=find()) as one:
            before = family(os.getpid())
            await one.start()
            ours = {pid: began for pid, began in family(os.getpid()).items() if pid not in before}
            mains = [pid for pid in ours if "--user-data-dir" in command_line(pid)]
            return [Path(f"/proc/{pid}/environ").read_bytes() for pid in mains], ours, one.folder

    environments, ours, folder = runner.run(story())
    assert environments
    assert not [one for one in environments if b"hunter2" in one]
    assert folder is not None
    eventually(lambda: not left(ours))
    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only Playwright's driver ends it")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "driver stopped", "driver and parent killed"])
def test_nothing_of_a_browser_survives_us(how: str, tmp_path: Path) -> None:
    """Whatever ends our process, every process of its browser ends, and its folders are removed."""
    places: list[Path] = []
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TABELLION_CHROMIUM": find() or ""},
    )  # fmt: skip
    processes: dict[int, str] = {}
    try:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.is_dir()
        processes = family(owner.pid)
        words = command_line(next(pid for pid in processes if "browser_parent" in command_line(pid))).split()
        places = [folder, *(Path(word.partition("=")[2]) for word in words if word.startswith("--user-data-dir="))]
        assert len(places) == 2
        assert len([pid for pid in processes if "--user-data-dir" in command_line(pid)]) >= 2
        driver = next(pid for pid in processes if "run-driver" in command_line(pid))
        parent = next(pid for pid in processes if "browser_parent" in command_line(pid))
        if how == "driver stopped":
            os.kill(driver, signal.SIGSTOP)
        elif how == "driver and parent killed":
            os.kill(parent, signal.SIGKILL)
            os.kill(driver, signal.SIGKILL)
        owner.send_signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
        owner.wait(30)
        eventually(lambda: not left(processes))
        if "killed" not in how:  # else no process is left that could remove it
            eventually(lambda: not any(place.exists() for place in places))
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()
        for pid in left(processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def test_a_missing_browser_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the package, or the variable whose program does not exist."""
    monkeypatch.delenv("TABELLION_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install chromium"):
        chromium.find_program()
    monkeypatch.setenv("TABELLION_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(ConfigurationError, match="TABELLION_CHROMIUM names /nowhere/chromium"):
        chromium.find_program()
    (tmp_path / "google-chrome").write_text("#!/bin/sh\n")
    (tmp_path / "google-chrome").chmod(0o755)
    monkeypatch.delenv("TABELLION_CHROMIUM")
    assert chromium.find_program() == str(tmp_path / "google-chrome")


def test_a_program_that_is_not_a_browser_is_reported(tmp_path: Path) -> None:
    """A retry may help if it was killed, so this is not a configuration error."""
    with pytest.raises(BrowserFailed, match="did not start"):
        asyncio.run(Chromium(program="/bin/false").start())


def test_playwright_comes_with_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the command that installs it is named."""
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)

    with pytest.raises(PackageMissingError, match=r"tabellion\[browser\]"):
        asyncio.run(Chromium(program="/bin/true").start())
