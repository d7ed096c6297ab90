"""How many model calls one process can have open: `python -m bench.calls [model] [calls] [seconds] [rounds]`."""

from __future__ import annotations

import asyncio
import resource
import sys
import time

from tabellion.models.base import Ask, Blob, Model
from tabellion.models.catalog import make
from tabellion.models.fake.serving import serving

SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("vendor", "invoice_number", "date", "due_date", "currency")}
    | {"total": {"type": "number"}, "tax": {"type": "number"}},
    "required": ["vendor", "total"],
}
TEXT = "Vendor: Acme Ltd\nInvoice number: 4711\nDate: 2026-11-01\nCurrency: EUR\nTax: 19.00\nTotal: 118.00\n" * 10


async def measure(model: Model, calls: int, seconds: float, rounds: int) -> None:
    """Keep this many calls open at once and report how near that comes to the ideal."""
    page = Blob(b"\x89PNG\r\n\x1a\n" + b"\x00" * 20_000, "image/png")
    ask = Ask(deadline=120)
    await model.call([page, TEXT], SCHEMA, ask)  # imports and the first connection
    began, cpu = time.perf_counter(), time.process_time()

    ended: list[float] = []

    async def slot() -> None:
        for _ in range(rounds):
            await model.call([page, TEXT], SCHEMA, ask)
            ended.append(time.perf_counter() - began)

    await asyncio.gather(*(slot() for _ in range(calls)))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    await model.close()
    done, ideal = calls * rounds, seconds * rounds
    steady = sum(2 * seconds <= end < (rounds - 1) * seconds for end in ended) / (calls * (rounds - 3))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{model.name}: {done} calls of {seconds:g} s, {calls} at once: {took:.2f} s, "
        f"{100 * ideal / took:.1f} % of ideal, {100 * steady:.1f} % once all have begun, "
        f"{1000 * cpu / done:.2f} ms CPU a call, {rss:.0f} MB"
    )


def main() -> None:
    """Run it against a fake model in another process."""
    name, calls, seconds, rounds = (sys.argv[1:] + ["gemini", "1000", "3", "10"][len(sys.argv) - 1 :])[:4]
    with serving(latency=float(seconds)) as fake:
        path = "" if name == "gemini" else "/v1"
        model = make(name, {"key": "fake", "base_url": fake.url + path, "model": {"openai": "gpt-4o-mini"}.get(name)})
        asyncio.run(measure(model, int(calls), float(seconds), int(rounds)))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  the fake: {1000 * (used.ru_utime + used.ru_stime) / (int(calls) * int(rounds)):.2f} ms CPU a call")


if __name__ == "__main__":
    main()
