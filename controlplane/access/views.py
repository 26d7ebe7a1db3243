"""Signing in, with a password or a link, and out."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.access import attempts, links
from controlplane.access.roles import Who


class PasswordForm(AuthenticationForm):
    """Says so when it is the number of tries that is wrong."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "This name and password do not belong together.",
    }

    def get_invalid_login_error(self) -> ValidationError:
        wait = getattr(self.request, "sign_in_wait", 0)
        if not wait:
            return super().get_invalid_login_error()
        return ValidationError(
            f"There were too many tries for this account, or from your address. Try again in {-(-wait // 60)} minutes.",
            code="too_many_tries",
        )


class SignIn(LoginView):
    """The page that LOGIN_URL leads to."""

    form_class = PasswordForm
    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | _site()

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
        wait = getattr(self.request, "sign_in_wait", 0)
        if wait:
            response.status_code = 429
            response["Retry-After"] = str(wait)
        return response


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest, token: str) -> HttpResponse:
    # Opening the link only shows a button: whatever looks at links on its own (previews) cannot spend it.
    if request.method == "GET":
        return render(request, "registration/sign_in_link.html", _site())
    try:
        user = links.redeem(token, now=timezone.now())
    except links.LinkRefused as refusal:
        who = Who("", source=str(request.META.get("REMOTE_ADDR") or ""))
        attempts.note(who, "sign-in", "(link)", allowed=False, status=403, outcome=str(refusal))
        return render(request, "registration/sign_in_refused.html", {"reason": str(refusal), **_site()}, status=403)
    request.sign_in_by = "link"  # type: ignore[attr-defined]
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return redirect(settings.LOGIN_REDIRECT_URL)


def _site() -> dict[str, Any]:
    """Whoever signs in sees where."""
    return {"site_kind": settings.PDCP_SITE_KIND, "site_name": settings.PDCP_SITE_NAME}
