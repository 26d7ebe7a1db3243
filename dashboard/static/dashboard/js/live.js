// Hears of changes, asks again for the parts of this page that they touch, and says in the pill how old the page is.
import { morphPart } from './morph.js';
import { again, asOf, names, named, read, touched } from './parts.js';
import { paintPill } from './pill.js';
import { Refetch } from './refetch.js';
import { Feed } from './socket.js';
import { serverSaid } from './time.js';

const POLL = 5000;
const SLOW = 15000;
const NO_ANSWER = 5000;
const ASLEEP = 30000;

const body = document.body;
const now = () => performance.now();

class Live {
  constructor() {
    this.socket = 'connecting';
    [this.ledger, this.revision] = read(body.dataset.cursor);
    this.why = '';
    this.newer = 0;
    this.paused = this.behind = this.signedOut = false;
    // When the page was last known to be what the control plane has; when all of it was last asked for.
    this.sureAt = this.lookedAt = now();
    this.unsureSince = null;
    this.tickedAt = Date.now();
    this.open = new Set();
    this.againAt = new Map();
    this.refetch = new Refetch({
      held: () => this.paused || document.hidden || this.signedOut || this.gone || Boolean(asOf()),
      on: {
        answered: (html, of) => this.answered(html, of),
        failed: why => this.unsure(why),
        signedOut: () => this.leave(),
        gone: status => this.vanish(status),
      },
    });
    this.feed = new Feed({
      cursor: body.dataset.cursor,
      about: body.dataset.about ?? '',
      on: { hear: message => this.hear(message), state: (word, why) => this.told(word, why) },
    });
  }

  start() {
    this.feed.connect();
    setInterval(() => this.each(), 1000);
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.back(); });
    window.addEventListener('pageshow', event => { if (event.persisted) this.reconnect(); });
    window.addEventListener('online', () => this.reconnect());
    window.addEventListener('offline', () => this.feed.lost(1006, 'this computer is offline'));
    document.addEventListener('pdcp:refresh', event => this.ask(event.detail?.parts, event.detail?.open));
    document.addEventListener('pdcp:pause', () => this.pause());
    document.addEventListener('htmx:responseError', event => { if (event.detail.xhr?.status === 401) this.leave(); });
    this.paint();
  }

  told(word, why) {
    const before = this.socket;
    this.socket = word;
    if (word === 'open') {
      // What is not in the ledger, as rooms and samples, was told by nobody while we were away.
      if (before !== 'connecting') this.all({ soon: true });
    } else if (before === 'open' || before === 'connecting') {
      this.unsure(why || 'reconnecting');
      this.lookedAt = Math.min(this.lookedAt, now() - POLL + 1000);
    }
    // The page knows best whether it is still allowed: a session may have been renewed in another tab.
    if (word === 'signed-out') this.ask();
    if (word === 'refused') this.why = why;
    this.paint();
  }

  hear(message) {
    this.behind = message.away ?? false;
    if (message.type === 'snapshot') {
      // The ledger is another one, or we were away for too long: nothing of this page is sure.
      document.dispatchEvent(new CustomEvent('pdcp:anew'));
      this.all({ soon: true });
    } else if (message.type === 'events') {
      if (this.paused) this.newer += message.events.length;
      document.dispatchEvent(new CustomEvent('pdcp:events', { detail: { events: message.events, paused: this.paused } }));
      this.refetch.want(touched(message.events));
    }
    if (this.refetch.idle && !this.behind && !this.paused && this.unsureSince === null) {
      this.revision = message.to;
      this.sureAt = now();
    }
    this.paint();
  }

  answered(html, { names: asked, cursor, date, took }) {
    const [ledger, revision] = read(cursor);
    const another = ledger !== this.ledger || revision < this.revision;
    // Nobody but this answer tells of changes: whoever follows events looks for itself.
    if (another || this.socket !== 'open') document.dispatchEvent(new CustomEvent('pdcp:anew'));
    if (date) serverSaid(Date.parse(date), took);
    if (!this.paused || names().every(name => asked.includes(name))) {
      this.ledger = ledger;
      this.revision = revision;
      this.newer = 0;
    }
    this.sureAt = now();
    this.unsureSince = null;
    this.behind = this.signedOut = false;
    if (this.socket !== 'refused') this.why = '';
    if (this.socket === 'signed-out' || (another && this.socket !== 'open')) this.feed.cursor = cursor;
    if (this.socket === 'signed-out') this.feed.again();
    this.show(html);
    this.paint();
  }

  show(html) {
    const box = document.createElement('template');
    box.innerHTML = html;
    for (const fresh of box.content.querySelectorAll('[data-part]')) {
      const old = named(fresh.dataset.part);
      if (old) morphPart(old, fresh, { showNew: this.open.delete(fresh.dataset.part) });
    }
  }

  unsure(why) {
    this.unsureSince ??= now();
    this.why = why;
    this.paint();
  }

  leave() {
    this.signedOut = true;
    this.paint();
  }

  // What this page is about is gone, or not ours to see any more. The whole page says which; but nobody loses a dialog.
  vanish(status) {
    const again = performance.getEntriesByType('navigation')[0]?.type === 'reload' && now() < 2 * SLOW;
    if (again) this.unsure(`the server answers ${status}`);
    else this.gone = true;
    this.each();
  }

  all(how) {
    this.lookedAt = now();
    this.refetch.want(names(), how);
  }

  // A person has done something, or wants to see what waits behind "3 new".
  ask(wanted = names(), open = false) {
    if (open) for (const name of wanted) this.open.add(name);
    this.refetch.want(wanted, { soon: true, force: true });
  }

  each() {
    if (this.gone && !document.querySelector('dialog[open]')) location.reload();
    this.feed.look();
    const asleep = !document.hidden && Date.now() - this.tickedAt > ASLEEP;
    this.tickedAt = Date.now();
    if (asleep) this.reconnect();
    if (this.refetch.askedAt !== null && now() - this.refetch.askedAt > NO_ANSWER) this.unsure('no answer yet');
    // What time alone changes, nobody tells: look now and then. And while no socket tells anything, look often.
    const often = this.socket !== 'open' || this.behind;
    if (now() - this.lookedAt > (often ? POLL : SLOW)) this.all();
    for (const [name, every] of again()) {
      if (now() - Math.max(this.lookedAt, this.againAt.get(name) ?? 0) < every) continue;
      this.againAt.set(name, now());
      this.refetch.want([name]);
    }
    this.paint();
  }

  back() {
    this.tickedAt = Date.now();
    this.feed.look();
    if (this.signedOut) this.ask();
    else this.refetch.plan(true);
  }

  reconnect() {
    this.feed.connect();
    this.all({ soon: true });
  }

  pause() {
    this.paused = !this.paused;
    this.newer = 0;
    document.dispatchEvent(new CustomEvent('pdcp:paused', { detail: this.paused }));
    if (!this.paused) this.all({ soon: true });
    this.paint();
  }

  press(does) {
    if (does === 'reconnect') this.reconnect();
    else if (does === 'back') location.assign(asOf().back);
    else if (does === 'signin') location.assign(`${document.getElementById('live').dataset.signIn}?next=${encodeURIComponent(location.pathname + location.search)}`);
    else document.dispatchEvent(new CustomEvent('pdcp:pause'));
  }

  paint() {
    const { socket, signedOut, paused, newer, revision, behind, why } = this;
    const since = at => (at === null ? 0 : (now() - at) / 1000);
    paintPill({ socket, signedOut, asOf: asOf(), paused, newer, revision, behind, why, unsure: since(this.unsureSince), age: since(this.sureAt) });
  }
}

if (body.dataset.cursor) {
  const live = new Live();
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-live-button]');
    if (button) live.press(button.dataset.does);
  });
  live.start();
}
