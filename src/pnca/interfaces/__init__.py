"""Ways in from outside: parse, call, print; nothing else lives here."""
