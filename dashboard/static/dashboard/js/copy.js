// Buttons with data-copy: its text, or the text of the element it names with a #.
import { say } from './say.js';

document.addEventListener('click', async event => {
  const button = event.target.closest('[data-copy]');
  if (!button) return;
  const wanted = button.dataset.copy;
  const text = wanted.startsWith('#') ? document.querySelector(wanted)?.textContent ?? '' : wanted;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS, and not on loopback, browsers have no clipboard for us: the old way still works.
    const area = Object.assign(document.createElement('textarea'), { value: text, className: 'vh' });
    (button.closest('dialog') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  button.classList.add('did');
  setTimeout(() => button.classList.remove('did'), 1200);
  say('copied');
});
