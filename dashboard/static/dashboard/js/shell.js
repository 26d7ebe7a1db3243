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
