"""Ages as tables show them: short, two units at most. `static/dashboard/js/time.js` counts on in the same words."""

NARROW = "\u202f"


def age_text(seconds: float) -> str:
    """
    >>> [age_text(s).replace(NARROW, " ") for s in (0.42, 48.9, 469, 18_120, 104_400)]
    ['0.4s', '48s', '7m 49s', '5h 2m', '1d 5h']
    """
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    for unit, name, less, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name}{NARROW}{whole % unit // less}{below}"
    return f"{whole}s"
