// The sign-in form: shows what was wrong, and when to try again.
import { api, byId, data, explain, t } from "./base.js";

const form = byId("sign-in"), fault = byId("fault"), button = byId("submit");
let timer = 0;

function showFault(text) {
  fault.hidden = !text;
  byId("fault-text").textContent = text;
}

function countDown(seconds) {
  clearInterval(timer);
  button.disabled = true;
  const until = Date.now() + seconds * 1000;
  const count = () => {
    const left = Math.ceil((until - Date.now()) / 1000);
    if (left > 0) return showFault(t("sign_in.wait", { n: left }));
    clearInterval(timer);
    button.disabled = false;
    showFault("");
  };
  count();
  timer = setInterval(count, 500);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { environment, name, password } = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
  if (!name.trim() || !password) return showFault(t("sign_in.both"));
  showFault("");
  button.setAttribute("aria-busy", "true");
  try {
    await api("POST", "/sign-in", { environment, name, password });
    location.replace(data.next || "/");
  } catch (error) {
    const after = Number(error.headers?.get("retry-after"));
    if (error.status === 429 && after) countDown(after);
    else showFault(explain(error));
    byId("password").select();
  } finally {
    button.removeAttribute("aria-busy");
  }
});
