"""What the admin shows."""

from django.contrib import admin

admin.site.site_header = "PD control plane"
admin.site.site_title = "PD control plane"
admin.site.index_title = "Records"
