// How fast a batch advances: computed from samples that are taken while its page is open.

const WINDOW = 60; // seconds over which the throughput is averaged
const RECENT = 5; // seconds over which the current throughput is averaged
const SHORTEST = 3; // seconds between two samples that say anything

/** Samples of how many refs have ended. */
export class Pace {
  constructor() {
    this.samples = [];
  }

  /** Adds a sample: seconds, and the refs that have ended by then. If refs were started again, counting starts anew. */
  add(at, ended) {
    if (this.samples.length && ended < this.samples.at(-1).ended) this.samples = [];
    this.samples.push({ at, ended });
    while (this.samples.length > 2 && this.samples[1].at < at - WINDOW) this.samples.shift();
  }

  /** Refs per second within the last minute; null as long as it is not known. */
  get rate() {
    if (this.samples.length < 2) return null;
    const first = this.samples[0], last = this.samples.at(-1);
    return last.at - first.at < SHORTEST ? null : (last.ended - first.ended) / (last.at - first.at);
  }

  /** Refs per second within the last seconds, at least since the sample before the last one. */
  get current() {
    const last = this.samples.at(-1), earlier = this.samples.slice(0, -1);
    const before = earlier.find((sample) => sample.at >= last.at - RECENT) ?? earlier.at(-1);
    return before && last.at > before.at ? (last.ended - before.ended) / (last.at - before.at) : null;
  }

  /** Seconds until so many refs have ended; null if nothing advances. */
  remaining(pending) {
    return this.rate ? pending / this.rate : null;
  }
}
