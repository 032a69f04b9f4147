"""One step of a wave each; `driver.wave` puts them in order."""
