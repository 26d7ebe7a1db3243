// The stream of what is committed: connects, resumes where it stood, and notices when something is missing.
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;
const HELLO_WITHIN = 8000;
const FAILURES_OF_A_BLOCK = 3;
const SIGNED_OUT = 4401;
const REFUSED = new Set([4400, 4403, 4404]);

// `on`: hear(message) for events, beats and snapshots; state(word, reason): open, closed, blocked, signed-out, refused.
export class Feed {
  constructor({ cursor, about, on }) {
    this.cursor = cursor;
    this.about = about;
    this.on = on;
    this.pause = FIRST_PAUSE;
    this.failures = 0;
    this.everOpen = false;
    this.beat = 15000;
  }

  connect() {
    clearTimeout(this.timer);
    this.drop();
    const url = new URL('/ws/fleet', location.href);
    url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    url.searchParams.set('after', this.cursor);
    if (this.about) url.searchParams.set('instance', this.about);
    this.begunAt = performance.now();
    this.heardAt = null;
    this.told = Number(this.cursor.split(':')[1]);
    let socket;
    try {
      socket = new WebSocket(url);
    } catch {
      this.lost(1006, 'this browser opens no sockets');
      return;
    }
    this.socket = socket;
    socket.onmessage = event => { if (socket === this.socket) this.read(event.data); };
    socket.onclose = event => { if (socket === this.socket) this.lost(event.code, event.reason); };
  }

  read(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      this.lost(1006, 'something was heard that makes no sense');
      return;
    }
    this.heardAt = performance.now();
    this.failures = 0;
    this.everOpen = true;
    if (message.type === 'hello') {
      this.beat = message.beat_seconds * 1000;
      this.on.state('open', '');
      return;
    }
    // Whoever was only greeted is not served yet: the next pause is short again from here on.
    this.pause = FIRST_PAUSE;
    if (message.type === 'snapshot') {
      if (message.part < message.parts) return;
    } else if (message.from !== this.told) {
      // Something was lost on the way. What we know is told by the cursor, so ask from there.
      this.lost(1006, 'a message is missing');
      return;
    }
    this.told = message.to;
    this.cursor = message.cursor;
    this.on.hear(message);
  }

  lost(code, reason) {
    this.drop();
    this.failures += 1;
    if (code === SIGNED_OUT) this.on.state('signed-out', reason);
    else if (REFUSED.has(code)) this.on.state('refused', reason);
    else {
      // Never let through, and more than once: something on the way blocks sockets. Polling does, and we go on trying.
      this.on.state(!this.everOpen && this.failures >= FAILURES_OF_A_BLOCK ? 'blocked' : 'closed', reason);
      this.again();
    }
  }

  again() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  // Deaf from here on: a network that is gone may take minutes to say that the socket is closed.
  drop() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  // Somebody may come back from a sleep or a dead network: a socket that says nothing is no socket.
  look() {
    if (!this.socket) return;
    const quiet = performance.now() - (this.heardAt ?? this.begunAt);
    if (quiet > (this.heardAt === null ? HELLO_WITHIN : 2 * this.beat)) this.lost(1006, 'nothing was heard');
  }
}
