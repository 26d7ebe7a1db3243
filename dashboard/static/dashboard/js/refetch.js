// Asks again for parts of this page: one request at a time, together what comes together, more rarely while it fails.
import { named } from './parts.js';

const COALESCE = 300;
const MOST_PAUSE = 5000;
const TIMEOUT = 20000;

// `on`: answered(html, { names, cursor, date, took }), failed(why), signedOut(), gone(status).
// `held()`: whether nothing is to be asked now; what is wanted meanwhile is kept.
export class Refetch {
  constructor({ on, held }) {
    this.on = on;
    this.held = held;
    this.dirty = new Set();
    this.forced = false;
    this.askedAt = null;
    this.failures = 0;
    this.notBefore = 0;
  }

  get idle() {
    return this.askedAt === null && !this.dirty.size;
  }

  // `soon`: a person waits for it, or nothing on the page is sure. `force`: even while the page is paused.
  want(names, { soon = false, force = false } = {}) {
    for (const name of names) this.dirty.add(name);
    this.forced ||= force;
    this.plan(soon);
  }

  plan(soon = false) {
    if (this.askedAt !== null) {
      this.hurry ||= soon;
      return;
    }
    if (!this.dirty.size || (this.held() && !this.forced)) return;
    const now = performance.now();
    const due = soon ? now : Math.max(this.notBefore, now + COALESCE);
    if (this.timer && this.due <= due) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => this.begin(), due - now);
  }

  async begin() {
    this.timer = null;
    if (this.held() && !this.forced) return;
    const names = [...this.dirty].filter(named);
    this.dirty.clear();
    this.forced = this.hurry = false;
    if (!names.length) return;
    const began = this.askedAt = performance.now();
    const url = here();
    const { kind, value, headers } = await answerOf(url, names);
    const took = performance.now() - began;
    this.askedAt = null;
    // A page that takes long to make is asked for less often: never more than a quarter of the time.
    this.notBefore = performance.now() + Math.min(MOST_PAUSE, 3 * took);
    this.failures = kind === 'failed' ? this.failures + 1 : 0;
    if (kind === 'failed') {
      this.notBefore = performance.now() + Math.min(MOST_PAUSE, 500 * 2 ** this.failures);
      for (const name of names) this.dirty.add(name);
    } else if (kind === 'answered' && here() !== url) {
      // Another filter was chosen meanwhile: this is the answer to what nobody asks any more.
      this.want(names, { soon: true });
      return;
    }
    this.on[kind](value, { names, took, cursor: headers?.get('X-PDCP-Cursor'), date: headers?.get('Date') });
    this.plan(this.hurry);
  }
}

const here = () => location.pathname + location.search;

async function answerOf(url, names) {
  try {
    const answer = await fetch(url, {
      headers: { 'X-PDCP-Parts': names.join(',') },
      credentials: 'same-origin',
      cache: 'no-store',
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (answer.status === 401) return { kind: 'signedOut' };
    if ([403, 404, 410].includes(answer.status)) return { kind: 'gone', value: answer.status };
    if (!answer.ok) return { kind: 'failed', value: `the server answers ${answer.status}` };
    // Somebody on the way, as a sign-in of a proxy, has answered in our place.
    if (!answer.headers.get('X-PDCP-Cursor')) return { kind: 'failed', value: 'something else answers' };
    return { kind: 'answered', value: await answer.text(), headers: answer.headers };
  } catch {
    return { kind: 'failed', value: 'reconnecting' };
  }
}
