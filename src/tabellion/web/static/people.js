// The list of users, and the actions of admins.
import { showAway, api, ago, badge, byId, confirm, dialog, el, explain, field, formDialog, icon, LEVELS, me, moment, rowKeys, t, toast } from "./base.js";

const body = byId("rows");

async function load() {
  try {
    const { data } = await api("GET", "/api/users");
    body.replaceChildren(...data.users.map(row));
  } catch (error) {
    body.replaceChildren(el("tr", {}, el("td", { colspan: 5, class: "text-bad" }, explain(error))));
  }
  body.removeAttribute("aria-busy");
}

function row(user) {
  const role = el("select", { "aria-label": `${t("people.role")}: ${user.name}`, onchange: () => change(user, { role: role.value }, "people.changed") },
    Object.keys(LEVELS).map((one) => el("option", { value: one, selected: one === user.role }, t(`base.role_${one}`))));
  const state = user.disabled_at ? badge("bad", "cross", t("people.disabled"))
    : user.available ? badge("good", "check", t("people.active")) : badge("warn", "clock", t("people.away"));
  return el("tr", { dataset: { row: user.id } },
    el("td", {}, el("strong", {}, user.name), user.name === me.name && el("span", { class: "muted" }, ` · ${t("base.you")}`)),
    el("td", {}, role),
    el("td", {}, el("div", { class: "row" }, state, !user.has_password && !user.disabled_at && el("span", { class: "muted small" }, t("people.no_password")))),
    el("td", { class: "muted nowrap not-narrow", title: moment(user.last_seen_at) }, user.last_seen_at ? ago(user.last_seen_at) : t("people.never")),
    el("td", { class: "right" }, el("div", { class: "actions end" },
      !user.disabled_at && LEVELS[user.role] >= LEVELS.reviewer && el("button", { type: "button", class: "small-button", "aria-pressed": String(!user.available), "aria-label": `${t("people.be_away")}: ${user.name}`, onclick: () => toggleAway(user) }, icon("clock"), t("people.be_away")),
      !user.disabled_at && el("button", { type: "button", class: "small-button", title: t("people.link"), "aria-label": `${t("people.link")}: ${user.name}`, onclick: () => showLink(user) }, icon("link"), el("span", { class: "not-narrow" }, t("people.link"))),
      user.disabled_at
        ? el("button", { type: "button", class: "small-button", onclick: () => change(user, { disabled: false }, "people.let_in") }, t("people.enable"))
        : el("button", { type: "button", class: "small-button danger", onclick: () => disable(user) }, t("people.disable")))));
}

async function change(user, changes, textKey) {
  let done = false;
  try {
    await api("PATCH", `/api/users/${user.id}`, changes);
    toast(t(textKey, { name: user.name, role: changes.role ? t(`base.role_${changes.role}`) : "" }), "good");
    done = true;
  } catch (error) {
    toast(explain(error), "bad");
  }
  await load();
  return done;
}

async function toggleAway(user) {
  const done = await change(user, { available: !user.available }, user.available ? "people.is_away" : "people.is_back");
  if (done && user.name === me.name) showAway(user.available);
}

async function disable(user) {
  const sure = await confirm(t("people.disable_title", { name: user.name }), t("people.disable_text", { name: user.name }), t("people.disable"), { danger: true });
  if (sure) await change(user, { disabled: true }, "people.shut_out");
}

async function showLink(user) {
  try {
    const { data } = await api("POST", `/api/users/${user.id}/link`);
    const shown = el("input", { readonly: true, value: data.url, "aria-label": t("people.link"), class: "mono link-shown", onfocus: () => shown.select() });
    dialog(t("people.link_title", { name: user.name }), [el("p", {}, t("people.link_text", { name: user.name })), shown], [
      el("button", { type: "button", class: "primary", onclick: async () => { shown.select(); await navigator.clipboard.writeText(data.url); toast(t("people.copied"), "good"); } }, icon("copy"), t("base.copy")),
    ], { broad: true });
  } catch (error) {
    toast(explain(error), "bad");
  }
}

byId("add").addEventListener("click", async () => {
  const name = el("input", { name: "name", required: true, maxlength: 64, autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const role = el("select", { name: "role" }, Object.keys(LEVELS).map((one) => el("option", { value: one, selected: one === "reviewer" }, t(`base.role_${one}`))));
  const user = await formDialog(t("people.add"), [field(t("base.name"), name, t("people.name_hint")), field(t("people.role"), role)], t("people.add"),
    async (values) => (await api("POST", "/api/users", { name: values.name.trim().toLowerCase(), role: values.role })).data);
  if (!user) return;
  await load();
  toast(t("people.added", { name: user.name }), "good");
  await showLink(user);
});

rowKeys(body, { opens: false });
document.addEventListener("away", load);
load();
