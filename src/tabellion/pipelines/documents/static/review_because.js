// The reason of an action: a code with its parameters, or what a person wrote; a rejection has both.
import { fieldTitle, t, tell } from "./base.js";

export const because = (reason, { code = reason, fields = [], note = "" } = {}) => {
  const key = `review.because.${code}`;
  const known = tell(key, "") && t(key, { fields: fields.map((name) => fieldTitle(name)).join(", ") });
  return [known || code, note].filter(Boolean).join(": ");
};
