// The pill in the header: what is going on between this page and the control plane, as icon, word and colour.
import { ageText } from './time.js';

const STALE_SECONDS = 3;
const OFFLINE_SECONDS = 60;

export const DOES = {
  pause: ['Pause live updates', 'pause', ' (p)'],
  play: ['Go on with live updates', 'play', ' (p)'],
  reconnect: ['Reconnect now', 'undo', ''],
  back: ['Back to live', 'x', ''],
  signin: ['Sign in again', 'user', ''],
};

// What is known -> what the pill says. `unsure`: for how many seconds nobody has confirmed what the page shows; 0: fine.
// `age`: seconds since it was last known to be what the control plane has.
export function reading({ socket, signedOut, asOf, paused, newer, revision, unsure, behind, age, why }) {
  const at = { revision, lead: '· revision ', tail: '', stamp: '', sound: true, does: 'pause' };
  if (signedOut) return { ...at, key: 'signed-out', word: 'signed out', tone: 'bad', icon: 'x', tail: ' · what you see is old', sound: false, does: 'signin' };
  if (asOf) return { ...at, key: 'as-of', word: 'as of', tone: 'past', icon: 'clock', lead: '', revision: asOf.revision, tail: asOf.more ? ` · ${asOf.more}` : '', does: 'back' };
  if (paused) {
    const more = socket !== 'open' && unsure > STALE_SECONDS ? ' · not connected' : newer ? ` · ${newer} newer` : '';
    return { ...at, key: 'paused', word: 'paused', tone: 'none', icon: 'stall', lead: 'at ', tail: more, does: 'play' };
  }
  if (unsure > OFFLINE_SECONDS) return { ...at, key: 'offline', word: 'offline', tone: 'bad', icon: 'x', stamp: ageText(age), lead: '· last revision ', tail: ` · ${why}`, sound: false, does: 'reconnect' };
  if (behind) return { ...at, key: 'stale', word: 'stale', tone: 'warn', icon: 'clock', stamp: ageText(age), tail: ' · the database is away', sound: false, does: 'reconnect' };
  if (unsure > STALE_SECONDS) return { ...at, key: 'stale', word: 'stale', tone: 'warn', icon: 'clock', stamp: ageText(age), tail: ` · ${why}`, sound: false, does: 'reconnect' };
  if (socket === 'connecting') return { ...at, key: 'connecting', word: 'connecting', tone: 'none', icon: 'half' };
  if (socket === 'open' || (socket === 'closed' && unsure)) return { ...at, key: 'live', word: 'live', tone: 'ok', icon: 'live', tail: ` · ${ageText(age)} ago` };
  return { ...at, key: 'polling', word: 'polling', tone: 'busy', icon: 'half', lead: 'every 5s · revision ', tail: '' };
}

export function paintPill(known) {
  const pill = document.getElementById('live');
  if (!pill) return;
  const said = reading(known);
  const part = name => pill.querySelector(`[data-live-${name}]`);
  pill.className = said.tone === 'past' ? 'live past' : `live t-${said.tone}`;
  pill.dataset.state = said.key;
  pill.title = known.why ?? '';
  document.body.classList.toggle('stale', !said.sound);
  put(part('word'), said.word);
  put(part('stamp'), said.stamp && ` ${said.stamp}`);
  put(part('lead'), ` ${said.lead}`);
  put(part('revision'), ` ${said.revision}`);
  put(part('tail'), said.tail);
  use(pill.querySelector('use'), said.icon);
  const button = part('button');
  const [label, icon, key] = DOES[said.does];
  button.dataset.does = said.does;
  if (button.getAttribute('aria-label') !== label) {
    button.setAttribute('aria-label', label);
    button.title = label + key;
    use(button.querySelector('use'), icon);
  }
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function use(node, icon) {
  if (node.getAttribute('href') !== `#i-${icon}`) node.setAttribute('href', `#i-${icon}`);
}
