// Dialogs that ask before something is done, notices of what was done, and the way back from it.
import { say } from './say.js';
import { paint } from './time.js';

const host = document.getElementById('dialog-host');
const toasts = document.getElementById('toasts');
const csrf = document.body.dataset.csrf ?? '';
const READ_SECONDS = 10;
const UNDO_SECONDS = 30;
const PATIENCE = 30000;

// Sends what a form sends, and tells apart what came back: { toast } when done, { html } to show, or { wrong } as a notice.
async function send(url, fields) {
  let answer;
  try {
    answer = await fetch(url, {
      method: fields ? 'POST' : 'GET',
      body: fields,
      headers: { 'HX-Request': 'true', ...(fields ? { 'X-CSRFToken': csrf } : {}) },
      credentials: 'same-origin',
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (problem) {
    const late = problem.name === 'TimeoutError';
    return { wrong: { text: late ? 'No answer within 30 s: look whether it was done' : 'Not sent: the control plane cannot be reached' } };
  }
  if (answer.status === 401) return { wrong: { text: 'You are signed out', link: `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}`, label: 'Sign in' } };
  if (answer.headers.get('Content-Type')?.includes('json')) return { toast: (await answer.json()).toast };
  const box = document.createElement('template');
  box.innerHTML = await answer.text();
  const changed = answer.headers.get('HX-Trigger') === 'pdcp:refresh';
  if (box.content.querySelector('[data-act-body]')) return { html: box.content, changed };
  // A page of its own: what it says is said here.
  const sentence = box.content.querySelector('.say')?.textContent.trim();
  const request = box.content.querySelector('[data-copy]')?.dataset.copy;
  return { wrong: { bold: String(answer.status), text: sentence ?? 'This failed', request } };
}

function node(tag, attributes, ...inside) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...inside.filter(Boolean));
  return made;
}

function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.setAttribute('class', 'i');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(use);
  return svg;
}

const ICONS = { ok: 'ok', warn: 'neq', bad: 'x', busy: 'half' };

// What failed stays until it is read; what went well goes by itself, unless somebody is about to use it.
export function toast({ tone = 'ok', bold, text, undo, link, label, request }) {
  const close = node('button', { type: 'button', className: 'ib sm', title: 'Close' }, icon('x'));
  close.setAttribute('aria-label', 'Close this notice');
  const shown = node('div', { className: `toast-p t-${tone}` },
    node('span', { className: 'tone' }, icon(ICONS[tone] ?? 'ok')),
    node('span', { className: 'grow' }, bold && node('b', { textContent: `${bold} ` }), text,
      request && '. Request ', request && node('span', { className: 'mono', textContent: request })),
    link && node('a', { className: 'btn btn-sm', href: link, textContent: label }));
  if (request) {
    const copy = node('button', { type: 'button', className: 'ib sm', title: 'Copy request id' }, icon('copy'));
    copy.dataset.copy = request;
    copy.setAttribute('aria-label', 'Copy request id');
    shown.append(copy);
  }
  const away = () => shown.remove();
  if (undo) {
    const button = node('button', { type: 'button', className: 'btn btn-sm' }, icon('undo'), 'Undo');
    button.onclick = async () => {
      button.disabled = true;
      away();
      take(await send(`/act/${undo.act}`, formOf(undo.fields)));
    };
    shown.append(button);
  }
  close.onclick = away;
  shown.append(close);
  shown.setAttribute('role', tone === 'bad' ? 'alert' : 'status');
  // Beneath an open dialog nothing can be reached, nor is it read out: what goes wrong then is said inside of it.
  const box = dialog();
  box?.querySelector('.toast-p')?.remove();
  if (box) box.prepend(shown);
  else toasts.append(shown);
  say(`${bold ? `${bold} ` : ''}${text}`);
  if (tone === 'ok') {
    let left = undo ? UNDO_SECONDS : READ_SECONDS;
    const timer = setInterval(() => {
      if (!shown.isConnected) clearInterval(timer);
      else if (!document.hidden && !shown.matches(':hover, :focus-within') && (left -= 1) <= 0) away();
    }, 1000);
  }
}

function formOf(fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) form.append(name, one);
  return form;
}

// What came back is a notice, or something to be shown in the dialog.
function take({ toast: done, html, changed, wrong }) {
  if (html) show(html);
  // What was typed is kept when nothing of it arrived.
  else if (!wrong) shut();
  if (wrong) toast({ tone: 'bad', ...wrong });
  if (done) toast(done);
  if (done || changed) document.dispatchEvent(new CustomEvent('pdcp:refresh', { detail: {} }));
}

function dialog() {
  return host.querySelector('dialog[open]');
}

function show(html) {
  let box = dialog();
  if (!box) {
    box = node('dialog', { className: 'ask-w' });
    box.setAttribute('aria-labelledby', 'act-title');
    // However it was closed, nothing of it stays; the browser gives the focus back to whoever opened it.
    box.addEventListener('close', () => box.remove());
    host.append(box);
  }
  box.replaceChildren(html);
  box.classList.toggle('many-w', Boolean(box.querySelector('.many')));
  paint(box);
  if (!box.open) box.showModal();
  box.querySelector('[role=alert]')?.scrollIntoView({ block: 'nearest' });
  (box.querySelector('[aria-invalid=true]') ?? box.querySelector('[autofocus]'))?.focus();
}

function shut() {
  dialog()?.close();
}

let opening = 0;

export async function open(url) {
  const mine = ++opening;
  document.body.setAttribute('aria-busy', 'true');
  const answer = await send(url);
  document.body.removeAttribute('aria-busy');
  if (mine === opening) take(answer);
}

document.addEventListener('click', event => {
  const link = event.target.closest('a[data-act]');
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    open(link.href);
  }
  if (event.target.closest('[data-act-close]')) shut();
  // Beside the dialog, on what is dimmed: only while nothing was typed.
  if (event.target === dialog() && outside(event) && !dialog().querySelector('[data-typed]')) shut();
});
document.addEventListener('pdcp:act', event => open(event.detail.url));
document.addEventListener('pdcp:toast', event => toast(event.detail));
document.addEventListener('input', event => {
  if (host.contains(event.target)) event.target.dataset.typed = '';
});

function outside(event) {
  const box = dialog().getBoundingClientRect();
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
}

document.addEventListener('submit', async event => {
  const form = event.target.closest('form[data-act-form]');
  if (!form || !host.contains(form)) return;
  event.preventDefault();
  if (form.getAttribute('aria-busy') === 'true') return;
  form.setAttribute('aria-busy', 'true');
  const answer = await send(form.action, new FormData(form, event.submitter));
  form.removeAttribute('aria-busy');
  // Somebody closed the dialog meanwhile: what came of it is said all the same.
  take(answer);
});

// What an answer changes (what would remain, the command) is looked up again; an older answer never replaces a newer one.
let looking = 0;
document.addEventListener('change', async event => {
  const form = event.target.closest('form[data-act-looks]');
  if (!form || !host.contains(form) || event.target.name === 'typed') return;
  const fields = new FormData(form);
  fields.set('step', 'look');
  const mine = ++looking;
  const { html } = await send(form.action, fields);
  const fresh = html?.querySelector('form[data-act-looks]');
  if (!fresh || mine !== looking || !form.isConnected || form.getAttribute('aria-busy') === 'true') return;
  window.Idiomorph.morph(form, fresh, {
    morphStyle: 'outerHTML',
    // What somebody typed is theirs; a password does not even come back.
    callbacks: { beforeNodeMorphed: node => !(node.nodeType === 1 && node.matches('input:not([type=hidden]), select, textarea')) },
  });
});
