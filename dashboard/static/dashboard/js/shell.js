// The frame: theme and the navigation on narrow screens.
const NEXT = { auto: 'light', light: 'dark', dark: 'auto' };

document.addEventListener('click', event => {
  const theme = event.target.closest('[data-theme-next]');
  if (theme) {
    const wanted = NEXT[theme.dataset.themeNext] ?? 'auto';
    theme.dataset.themeNext = wanted;
    theme.setAttribute('aria-label', `Theme: ${wanted}`);
    if (wanted === 'auto') delete document.documentElement.dataset.bsTheme;
    else document.documentElement.dataset.bsTheme = wanted;
    // The server reads it, so that the next page comes in these colours and nothing flashes.
    document.cookie = `pdcp_theme=${wanted}; path=/; max-age=31536000; samesite=lax`;
  }
  const menu = event.target.closest('[data-nav]');
  if (menu) {
    const open = document.getElementById('nav').classList.toggle('open');
    menu.setAttribute('aria-expanded', String(open));
  }
  for (const details of document.querySelectorAll('details.me[open]')) {
    if (!details.contains(event.target)) details.open = false;
  }
});

document.addEventListener('keydown', event => {
  if (event.key !== 'Escape') return;
  const details = document.querySelector('details.me[open]');
  if (details) {
    details.open = false;
    details.querySelector('summary').focus();
  }
  const nav = document.querySelector('#nav.open');
  if (nav) {
    nav.classList.remove('open');
    const menu = document.querySelector('[data-nav]');
    menu.setAttribute('aria-expanded', 'false');
    menu.focus();
  }
});
