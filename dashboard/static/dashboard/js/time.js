// Ages count on, times are UTC or local, and all of them by the server's clock.
const NARROW = '\u202f';
const body = document.body;
let ahead = body.dataset.now ? Number(body.dataset.now) * 1000 - Date.now() : 0;

export const now = () => Date.now() + ahead;

// The server has said what time it was, in whole seconds, at some moment within the last `took` ms. What we believe is
// moved only as far as that word demands: so it gets better with each, and follows a clock here that is set.
export function serverSaid(epochMs, took = 0) {
  const least = epochMs - Date.now();
  ahead = Math.min(Math.max(ahead, least), least + 1000 + took);
}

// The same words as dashboard/presenters/ages.py.
export function ageText(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)}s`;
  const whole = Math.floor(seconds);
  for (const [unit, name, less, below] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'm'], [60, 'm', 1, 's']]) {
    if (whole >= unit) return `${Math.floor(whole / unit)}${name}${NARROW}${Math.floor((whole % unit) / less)}${below}`;
  }
  return `${whole}s`;
}

const two = number => String(number).padStart(2, '0');
export const isLocal = () => document.documentElement.dataset.zone === 'local';
export function clockText(date) {
  return isLocal()
    ? `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
    : date.toISOString().slice(11, 19);
}
function dayText(date) {
  return isLocal()
    ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clockText(date)} local`
    : `${date.toISOString().slice(0, 10)} ${clockText(date)} UTC`;
}

const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

export function tick(root = document) {
  const moment = now();
  for (const node of root.querySelectorAll('time[data-age]')) put(node, ageText((moment - Date.parse(node.dateTime)) / 1000));
  for (const node of root.querySelectorAll('time[data-until]')) put(node, ageText((Date.parse(node.dateTime) - moment) / 1000));
  for (const node of root.querySelectorAll('[data-wall]')) put(node, clockText(new Date(moment)));
}

export function paint(root = document) {
  for (const node of root.querySelectorAll('time')) {
    const date = new Date(node.dateTime);
    node.title = dayText(date);
    if ('clock' in node.dataset) put(node, clockText(date));
  }
  for (const node of root.querySelectorAll('[data-zone-name]')) put(node, isLocal() ? 'local' : 'UTC');
  tick(root);
}

document.addEventListener('click', event => {
  if (!event.target.closest('[data-zone-next]')) return;
  const zone = isLocal() ? 'utc' : 'local';
  document.documentElement.dataset.zone = zone;
  document.cookie = `pdcp_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  paint();
  document.dispatchEvent(new CustomEvent('pdcp:zone', { detail: zone }));
});
document.addEventListener('pdcp:painted', event => paint(event.target));
document.addEventListener('htmx:load', event => paint(event.detail.elt.parentElement ?? document));
paint();
setInterval(() => { if (!document.hidden) tick(); }, 1000);
document.addEventListener('visibilitychange', () => { if (!document.hidden) tick(); });
