// One website: its phases as they pass, and what can be done with it. The server renders the report.
import { api, byId, confirm, data, duration, el, events, explain, liveMark, notice, t, toast } from "./base.js";
import { localized } from "./messages.js";

const where = `/api/websites/${encodeURIComponent(data.id)}`;
let due = 0, current = null;

function drawStep(phase) {
  const texts = [
    phase.state === "done" || phase.state === "failed" ? duration(phase.seconds) : t(`website.state_${phase.state}`),
    phase.retries ? t("website.retries", { n: phase.retries }) : "",
    phase.worker && phase.state === "running" ? phase.worker : "",
  ].filter(Boolean).join(" · ");
  return el("li", { class: `step ${phase.state}` },
    el("strong", {}, t(`websites.phase_${phase.name}`)),
    el("span", { class: "small muted" }, texts),
    phase.note ? el("span", { class: "small" }, localized(phase, "note")) : null,
    phase.error ? el("span", { class: "small text-bad" }, localized(phase, "error")) : null);
}

async function load() {
  try {
    current = (await api("GET", where)).data;
    byId("steps").replaceChildren(...current.phases.map(drawStep));
    byId("notices").replaceChildren();
    // The report and the buttons are the server's: they change only with the status.
    if (current.status !== data.status) location.reload();
  } catch (error) {
    byId("notices").replaceChildren(notice("bad", "stop", explain(error)));
  }
}

function refresh() {
  due ||= setTimeout(async () => { await load(); due = 0; }, 500);
}

async function act(path, body = null) {
  try {
    await api("POST", `${where}/${path}`, body);
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

byId("retry")?.addEventListener("click", () => act("retry", {}));
byId("cancel")?.addEventListener("click", async () => {
  if (await confirm(t("website.cancel"), t("website.cancel_text"), t("website.cancel"), { danger: true })) await act("cancel");
});
byId("again")?.addEventListener("click", async () => {
  try {
    const { data: started } = await api("POST", "/api/websites", { url: current.url, type: current.type, models: current.models, language: current.language });
    location.assign(`/websites/${encodeURIComponent(started.id)}`);
  } catch (error) {
    toast(explain(error), "bad");
  }
});
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
