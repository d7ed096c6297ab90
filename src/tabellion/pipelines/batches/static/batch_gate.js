// The gate of a batch: its rate over the last minutes beside the throughput, its state, and why it is closed or pauses.
import { badge, byId, data, el, icon, language, notice, number, t } from "./base.js";
import { localized } from "./messages.js";
import { LineChart } from "./line_chart.js";
import { liveAge, now, short } from "./monitor.js";
import { renew } from "./rows.js";

const CLOCK = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
const perSecond = (rate) => t("batch.per_second", { rate: number(rate, rate < 10 ? 1 : 0) });
const throughput = { key: "refs", word: t("batch.line_refs"), css: "line-refs" };
const chart = new LineChart(byId("gate-chart"), {
  title: data.gate ? t("batch.gate", { name: data.gate }) : t("batch.throughput"),
  kinds: data.gate ? [{ key: "rate", word: t("batch.line_rate"), css: "line-rate" }, { key: "limit", word: t("batch.line_limit"), css: "line-limit" }, throughput] : [throughput],
  band: data.gate ? t("batch.line_closed") : null,
});
const reopens = liveAge((seconds) => (seconds === null || seconds >= 0 ? "" : t("batch.opens_in", { time: short(-seconds) })));

/** Whether no call may start now, and why: closed by its breaker or budget, or in a pause that the provider demanded. */
function findHindrance(gate, limiter) {
  if (gate?.state === "closed") return { kind: "closed", reason: localized(gate, "reason"), until: gate.reopens_at };
  if (limiter.backoff_until && Date.parse(limiter.backoff_until) > now()) return { kind: "paused", reason: "", until: limiter.backoff_until };
  return null;
}

/** Adds a sample to the graph, and shows the state of the gate. `gate` is null if the overview does not have it yet. */
export function showGate(limiter, gate, refs) {
  const found = data.gate ? findHindrance(gate, limiter) : null;
  const limited = data.gate !== null && limiter.rps > 0;
  chart.add({ at: now() / 1000, rate: limited ? limiter.rps : null, limit: gate?.limit ?? null, refs, band: found !== null });
  if (!data.gate) return;
  renew(byId("gate-badge"), found, () => (found === null ? badge("good", "check", t("dashboard.open"))
    : found.kind === "closed" ? badge("bad", "lock", t("dashboard.gate_closed"), found.reason) : badge("warn", "pause", t("batch.gate_paused"))));
  reopens.update(found?.until ?? null);
  renew(byId("gate-facts"), [limiter, gate, found?.until], () => [
    [t("batch.rate"), limited ? perSecond(limiter.rps) : t("batch.unlimited")],
    gate && [t("batch.limit"), gate.limit === null ? t("batch.limit_unknown") : perSecond(gate.limit)],
    [t("batch.tokens"), t("batch.of", { done: number(limiter.tokens, 1), total: number(limiter.max_tokens, 1) })],
    gate && [t("batch.bounds"), `${number(gate.min_rate, 1)} – ${perSecond(gate.max_rate)}`],
    gate && [t("batch.calls"), [number(gate.calls), gate.throttled ? el("span", { class: "muted" }, ` · ${t("batch.throttled", { n: gate.throttled, count: number(gate.throttled) })}`) : null,
      gate.failed ? el("span", { class: "muted" }, ` · ${t("batch.n_failed", { n: gate.failed, count: number(gate.failed) })}`) : null]],
    found?.until && [t("batch.until"), [CLOCK.format(Date.parse(found.until)), " ", reopens]],
  ].filter(Boolean).flatMap(([word, content]) => [el("dt", {}, word), el("dd", {}, content)]));
}

/** The notice that the gate is closed or pauses; null while it is open. */
export function gateNotice(limiter, gate) {
  const found = data.gate ? findHindrance(gate, limiter) : null;
  if (found === null) return null;
  if (found.kind === "paused") return null; // a short pause is normal: the card says it
  return { facts: [found.reason], make: () => notice("bad", "lock", t("batch.gate_why", { name: data.gate, reason: found.reason })) };
}

/** Shows the queues that the batch passes through, and what keeps one from working. */
export function showQueues(pictures, hindrances) {
  for (const item of byId("queues").children) {
    const queue = pictures.find((picture) => picture.name === item.dataset.queue);
    item.hidden = !queue;
    if (!queue) continue;
    const [, badges, counts] = item.children;
    hindrances(badges, queue);
    renew(counts, [queue.ready, queue.running, queue.failed], () => [
      t("batch.queue_counts", { ready: number(queue.ready), running: number(queue.running) }),
      queue.failed ? el("span", { class: "text-bad" }, " ", icon("stop"), ` ${number(queue.failed)}`) : null,
    ]);
  }
}
