// The stream of what is committed: connects, resumes where it stood, and notices when something is missing.
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;
const SIGNED_OUT = 4401;
const NEVER_AGAIN = new Set([4400, 4403, 4404]);

// `on`: hear(message) for events, beats and snapshots; state(word, detail): open, closed, blocked, signed-out, refused.
export class Feed {
  constructor({ cursor, about, on }) {
    this.cursor = cursor;
    this.about = about;
    this.on = on;
    this.pause = FIRST_PAUSE;
    this.failures = 0;
    this.everOpen = false;
    this.heardAt = 0;
    this.beat = 15000;
  }

  connect() {
    clearTimeout(this.timer);
    const url = new URL('/ws/fleet', location.href);
    url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    if (this.cursor) url.searchParams.set('after', this.cursor);
    if (this.about) url.searchParams.set('instance', this.about);
    let socket;
    try {
      socket = new WebSocket(url);
    } catch {
      this.again();
      return;
    }
    this.socket = socket;
    this.told = null;
    socket.onmessage = event => { if (socket === this.socket) this.hear(JSON.parse(event.data)); };
    socket.onclose = event => { if (socket === this.socket) this.closed(event); };
  }

  hear(message) {
    this.heardAt = performance.now();
    this.failures = 0;
    this.pause = FIRST_PAUSE;
    this.everOpen = true;
    if (message.type === 'hello') {
      this.beat = message.beat_seconds * 1000;
      this.told = this.cursor ? null : message.revision;
      this.on.state('open', message);
      return;
    }
    if (message.type === 'snapshot') {
      if (message.part < message.parts) return;
    } else if (this.told !== null && message.from !== this.told) {
      // Something was lost on the way. What we know is told by the cursor, so ask from there.
      this.socket.close();
      return;
    }
    this.told = message.to;
    this.cursor = message.cursor;
    this.on.hear(message);
  }

  closed(event) {
    this.socket = null;
    this.failures += 1;
    if (event.code === SIGNED_OUT) this.on.state('signed-out', event);
    else if (NEVER_AGAIN.has(event.code)) this.on.state('refused', event);
    else {
      // Never let through, and more than once: something on the way blocks sockets. Polling does, and we go on trying.
      this.on.state(!this.everOpen && this.failures >= 3 ? 'blocked' : 'closed', event);
      this.again();
    }
  }

  again() {
    this.timer = setTimeout(() => this.connect(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  // Somebody may come back from a sleep or a dead network: a socket that says nothing is no socket.
  look() {
    if (this.socket && this.heardAt && performance.now() - this.heardAt > 2 * this.beat) {
      const socket = this.socket;
      this.closed({ code: 1006, reason: 'nothing was heard' });
      socket.close();
    }
  }
}
