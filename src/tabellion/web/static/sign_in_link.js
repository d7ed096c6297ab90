// Posts a sign-in link. Its secret is in the fragment, which is never sent to a server or written to a log.
import { api, byId, explain, t } from "./base.js";

const token = location.hash.slice(1);
history.replaceState(null, "", "/enter");

function showFailure(text) {
  byId("enter-wait").hidden = true;
  byId("enter-fault").hidden = false;
  byId("enter-fault-text").textContent = text;
}

async function enter() {
  if (!token) return showFailure(t("enter.no_token"));
  try {
    await api("POST", "/enter", { token });
    location.replace("/");
  } catch (error) {
    showFailure(explain(error));
  }
}

enter();
