"""Ways in for people: single-use sign-in links."""
