"""Paths of signing in and out."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from controlplane.access.views import SignIn, sign_in

urlpatterns = [
    path("sign-in/", SignIn.as_view(), name="login"),
    path("sign-in/<str:token>/", sign_in, name="sign-in"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
]
