// The reason of an action: a code, optionally followed by an explanation; older rows have a sentence.
import { fieldTitle, t, tell } from "./base.js";

export const because = (reason, { fields = [] } = {}) => {
  const [code, ...rest] = reason.split(": ");
  const key = `review.because.${code}`;
  const known = tell(key, "") && t(key, { fields: fields.map((name) => fieldTitle(name)).join(", ") });
  return [known || code, ...rest].filter(Boolean).join(": ");
};
