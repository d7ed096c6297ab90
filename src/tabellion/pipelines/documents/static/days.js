// Days in the browser's time zone, in the format of inputs.

const two = (number) => String(number).padStart(2, "0");

/** The day of a time. */
export const dayOf = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

/** When a day begins. */
export const startOf = (day) => new Date(`${day}T00:00:00`);

/** The same time of day, so many days later: a day has 23 or 25 hours when clocks change. */
export function addDays(date, days) {
  const later = new Date(date);
  later.setDate(later.getDate() + days);
  return later;
}
