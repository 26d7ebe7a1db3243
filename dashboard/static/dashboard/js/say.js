// Says something to whoever listens to the page instead of looking at it.
export function say(text) {
  const place = document.getElementById('said');
  if (!place || place.textContent === text) return;
  place.textContent = text;
}
