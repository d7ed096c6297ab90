// The reason of an action: a code with its parameters, or what a person wrote; a rejection has both.
import { fieldTitle, t, textOr } from "./base.js";

export const describeReason = (reason, { code = reason, fields = [], note = "" } = {}) => {
  const key = `review.because.${code}`;
  const known = textOr(key, "") && t(key, { fields: fields.map((name) => fieldTitle(name)).join(", ") });
  return [known || code, note].filter(Boolean).join(": ");
};
