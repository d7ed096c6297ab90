// The figures of review on the dashboard: open and overdue items, and the share finished on time.

import { byId, language, number, t } from "./base.js";
import { Bars, put, ring, formatShare } from "./charts.js";
import { onOverview, showTile } from "./dashboard.js";
import { liveAge, short } from "./monitor.js";

const day = (options) => { const formatter = new Intl.DateTimeFormat(language, { ...options, timeZone: "UTC" }); return (at) => formatter.format(at); };

const week = new Bars(byId("sla-week"), {
  title: t("review_figure.week"), axis: day({ weekday: "short" }), tooltip: day({ weekday: "short", day: "numeric", month: "short" }), nothing: "", room: 42,
  kinds: [{ key: "kept", word: t("review_figure.kept"), css: "fill-kept" }, { key: "late", word: t("review_figure.late"), css: "fill-failed" }],
});
const circle = ring((share) => (share === null ? t("review_figure.none") : t("review_figure.ring", { share: formatShare(share) })));
byId("sla-ring").append(circle);
const next = liveAge((seconds) => (seconds === null ? "–" : short(Math.max(0, -seconds))));
byId("sla-next").append(next);

onOverview(({ sla }) => {
  byId("sla-card").hidden = !sla;
  if (!sla) return showTile("review", "–", "");
  showTile("review", number(sla.open), sla.overdue ? t("review_figure.n_overdue", { n: sla.overdue, count: number(sla.overdue) }) : t("review_figure.none_overdue"), sla.overdue ? "tile-bad" : "");
  circle.update(sla.compliance);
  put(byId("sla-sentence"), sla.due ? t("review_figure.sentence", { n: sla.due, kept: number(sla.kept), due: number(sla.due) }) : t("review_figure.none"));
  for (const name of ["open", "in_review", "soon", "overdue"]) put(byId(`sla-${name}`), number(sla[name]));
  byId("sla-overdue").className = sla.overdue ? "text-bad strong" : "";
  byId("sla-soon").className = sla.soon ? "text-warn strong" : "";
  next.update(sla.next_at);
  week.update({ since: new Date(sla.days[0].at), step: 86400, values: { kept: sla.days.map((one) => one.kept), late: sla.days.map((one) => one.finished - one.kept) } });
});
