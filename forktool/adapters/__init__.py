"""One outside thing each. They take and return core types and translate foreign exceptions."""
