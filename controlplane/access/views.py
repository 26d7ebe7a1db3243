"""The page behind a sign-in link."""

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.access import links


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest, token: str) -> HttpResponse:
    # Opening the link only shows a button: whatever looks at links on its own (previews) cannot spend it.
    if request.method == "GET":
        return render(request, "registration/sign_in_link.html")
    try:
        user = links.redeem(token, now=timezone.now())
    except links.LinkRefused as refusal:
        return render(request, "registration/sign_in_refused.html", {"reason": str(refusal)}, status=403)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("home")
