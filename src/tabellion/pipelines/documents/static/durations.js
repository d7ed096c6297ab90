// Durations and countdowns for people.

import { t } from "./base.js";

const SOON = 2 * 3600; // seconds before a deadline from which it is yellow
const NOW = 1800; // and red

const two = (n) => String(n).padStart(2, "0");

export const countdown = (seconds) => {
  const left = Math.max(0, Math.round(seconds));
  const minutes = Math.floor(left / 60);
  return left >= 3600 ? `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(left % 60)}` : `${minutes}:${two(left % 60)}`;
};

// In days if it is long, in minutes if it is short.
export const formatSpan = (seconds) => {
  const minutes = Math.floor(Math.abs(seconds) / 60);
  if (minutes < 60) return t("span.minutes", { n: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return t("base.days", { n: Math.floor(hours / 24) });
  return hours < 10 && minutes % 60 ? `${t("span.hours", { n: hours })} ${t("span.minutes", { n: minutes % 60 })}` : t("span.hours", { n: hours });
};

export const urgency = (left) => (left < NOW ? "bad" : left < SOON ? "warn" : "calm");
