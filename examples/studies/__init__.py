"""Complete studies, from data to figures: longer examples of the same form, `kinesym run NAME`."""
