// Hears of changes, asks again for the parts of this page that they touch, and says in the pill how old the page is.
import { morphPart } from './morph.js';
import { Feed } from './socket.js';
import { ageText, serverSaid } from './time.js';
import { paintPill } from './pill.js';

const COALESCE = 300;
const POLL = 5000;
const SLOW = 15000;
const MOST_PAUSE = 5000;

const body = document.body;
const parts = () => [...document.querySelectorAll('[data-part]')];

class Live {
  constructor() {
    this.state = 'connecting';
    this.revision = Number(body.dataset.cursor.split(':')[1]);
    this.heard = this.revision;
    this.freshAt = performance.now();
    this.dirty = new Set();
    this.newer = 0;
    this.rest = COALESCE;
    this.paused = false;
    this.feed = new Feed({
      cursor: body.dataset.cursor,
      about: body.dataset.about ?? '',
      on: { hear: message => this.hear(message), state: (word, detail) => this.told(word, detail) },
    });
  }

  start() {
    this.feed.connect();
    setInterval(() => this.each(), 1000);
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.feed.look(), this.soon(0); });
    window.addEventListener('offline', () => this.told('closed', {}));
    window.addEventListener('online', () => { if (!this.feed.socket) this.feed.connect(); });
    document.addEventListener('pdcp:refresh', event => this.want(event.detail?.parts ?? parts().map(part => part.dataset.part), 0));
    document.addEventListener('pdcp:pause', () => this.pause());
    this.paint();
  }

  told(word, detail) {
    this.state = word;
    this.why = detail?.reason ?? '';
    if (word === 'closed' && !this.awaySince) this.awaySince = performance.now();
    if (word === 'open') {
      this.awaySince = null;
      this.away = false;
    }
    this.paint();
  }

  hear(message) {
    this.away = message.away ?? false;
    this.heard = message.to;
    if (message.type === 'events') {
      const kinds = new Set(message.events.map(event => event.kind));
      const touched = parts().filter(part => touches(part.dataset.on, kinds));
      this.newer += message.events.length;
      document.dispatchEvent(new CustomEvent('pdcp:events', { detail: { events: message.events, paused: this.paused } }));
      this.want(touched.map(part => part.dataset.part));
      if (!touched.length && !this.dirty.size && !this.busy) this.settle(message.to);
    } else if (message.type === 'snapshot') {
      // The ledger is another one, or we were away for too long: nothing of this page is sure.
      document.dispatchEvent(new CustomEvent('pdcp:anew'));
      this.want(parts().map(part => part.dataset.part), 0);
    } else if (!this.dirty.size && !this.busy && !this.away) {
      this.settle(message.to);
    }
    this.paint();
  }

  settle(revision) {
    this.revision = Math.max(this.revision, revision);
    this.freshAt = performance.now();
  }

  want(names, pause = this.rest) {
    for (const name of names) this.dirty.add(name);
    if (this.dirty.size) this.soon(pause);
  }

  soon(pause) {
    if (this.paused || this.busy || document.hidden || !this.dirty.size) return;
    if (this.timer && pause > 0) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.timer = null; this.refresh(); }, pause);
  }

  each() {
    this.feed.look();
    const age = performance.now() - this.freshAt;
    const polling = this.state === 'blocked' || this.state === 'closed';
    // What time alone changes, nobody tells: look now and then. And while no socket tells anything, look often.
    if (!this.paused && age > (polling ? POLL : SLOW)) this.want(parts().map(part => part.dataset.part), 0);
    this.paint();
  }

  async refresh() {
    if (this.busy || this.paused) return;
    this.busy = true;
    const names = [...this.dirty].filter(name => document.getElementById(`part-${name}`));
    this.dirty.clear();
    const began = performance.now();
    try {
      const answer = await fetch(location.href, {
        headers: { 'X-PDCP-Parts': names.join(',') },
        credentials: 'same-origin',
        signal: AbortSignal.timeout(20000),
      });
      if (answer.status === 401) this.told('signed-out', {});
      else if (answer.status === 404 || answer.status === 403) location.reload();
      else if (!answer.ok) throw new Error(`status ${answer.status}`);
      else {
        if (answer.headers.get('Date')) serverSaid(Date.parse(answer.headers.get('Date')));
        this.show(await answer.text());
        this.settle(Number(answer.headers.get('X-PDCP-Cursor').split(':')[1]));
        this.newer = 0;
        this.failing = 0;
        if (this.state === 'blocked' || this.state === 'closed') this.awaySince = null;
      }
    } catch {
      this.failing = (this.failing ?? 0) + 1;
      if (!this.awaySince) this.awaySince = performance.now();
      for (const name of names) this.dirty.add(name);
    }
    this.busy = false;
    // A page that takes long to make is asked for less often: never more than a quarter of the time.
    const took = performance.now() - began;
    this.rest = Math.min(MOST_PAUSE, Math.max(COALESCE, 3 * took));
    this.soon(this.failing ? Math.min(MOST_PAUSE, 500 * 2 ** this.failing) : this.rest);
    this.paint();
  }

  show(html, options) {
    const box = document.createElement('template');
    box.innerHTML = html;
    for (const fresh of box.content.querySelectorAll('[data-part]')) {
      const old = document.getElementById(fresh.id);
      if (old) chip(old.id, morphPart(old, fresh.outerHTML, options), fresh.outerHTML);
    }
  }

  pause() {
    this.paused = !this.paused;
    document.dispatchEvent(new CustomEvent('pdcp:paused', { detail: this.paused }));
    if (!this.paused) this.want(parts().map(part => part.dataset.part), 0);
    this.paint();
  }

  paint() {
    const away = this.awaySince ? (performance.now() - this.awaySince) / 1000 : 0;
    paintPill({
      state: this.state, paused: this.paused, revision: this.revision, newer: this.newer, away, why: this.why,
      failing: this.failing ?? 0, behind: this.away, age: (performance.now() - this.freshAt) / 1000, ageText,
    });
  }
}

function touches(on, kinds) {
  return on.split(' ').some(wanted => wanted === '*' || [...kinds].some(kind => kind.startsWith(wanted)));
}

// What waits behind "3 new" is shown at a click.
function chip(id, waiting, html) {
  const part = document.getElementById(id);
  const place = part?.querySelector('[data-new-chip]');
  if (!place) return;
  place.replaceChildren();
  if (!waiting) return;
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'chip', textContent: `${waiting} new` });
  button.onclick = () => {
    morphPart(document.getElementById(id), html, { showNew: true });
    document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: { parts: [part.dataset.part] } }));
  };
  place.append(button);
}

if (body.dataset.cursor) {
  const live = new Live();
  document.addEventListener('click', event => { if (event.target.closest('[data-live-button]')) live.pause(); });
  live.start();
}
