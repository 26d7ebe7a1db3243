// The pill in the header: what is going on between this page and the control plane, as icon, word and colour.
const STALE_SECONDS = 3;
const OFFLINE_SECONDS = 60;

const pill = document.getElementById('live');

// The word, its tone and icon, and what stands behind it.
export function reading({ state, paused, revision, newer, away, why, failing, behind, age, ageText }) {
  if (state === 'signed-out') return ['signed out', 'bad', 'x', 'sign in again', false];
  if (state === 'refused') return ['not live', 'bad', 'x', why, false];
  if (paused) return ['paused', 'none', 'stall', `at ${revision}${newer ? ` · ${newer} newer` : ''}`, true];
  if (away > OFFLINE_SECONDS && failing) return [`offline ${ageText(away)}`, 'bad', 'x', `last revision ${revision}`, false];
  if (behind) return [`stale ${ageText(age)}`, 'warn', 'clock', `revision ${revision} · the database is away`, false];
  if (failing || (state === 'closed' && away > STALE_SECONDS)) return [`stale ${ageText(Math.max(away, age))}`, 'warn', 'clock', `revision ${revision} · reconnecting`, false];
  if (state === 'blocked') return ['polling', 'busy', 'half', `every 5s · revision ${revision}`, true];
  if (state === 'open' || state === 'closed') return ['live', 'ok', 'live', `· revision ${revision} · ${ageText(age)} ago`, true];
  return ['connecting', 'none', 'half', `· revision ${revision}`, true];
}

export function paintPill(known) {
  if (!pill) return;
  const [word, tone, icon, more, sound] = reading(known);
  pill.className = `live t-${tone}`;
  pill.dataset.state = known.paused ? 'paused' : word.split(' ')[0];
  document.body.classList.toggle('stale', !sound);
  put(pill.querySelector('[data-live-word]'), word.split(/ (?=\d)/)[0]);
  put(pill.querySelector('[data-live-more]'), `${word.includes(' ') && /\d/.test(word) ? `${word.slice(word.indexOf(' ') + 1)} · ` : ''}${more}`);
  const use = pill.querySelector('use');
  if (use.getAttribute('href') !== `#i-${icon}`) use.setAttribute('href', `#i-${icon}`);
  const button = pill.querySelector('[data-live-button]');
  const label = known.paused ? 'Go on with live updates' : 'Pause live updates';
  if (button.getAttribute('aria-label') !== label) {
    button.setAttribute('aria-label', label);
    button.title = `${label} (p)`;
    button.querySelector('use').setAttribute('href', known.paused ? '#i-play' : '#i-pause');
  }
}

function put(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}
