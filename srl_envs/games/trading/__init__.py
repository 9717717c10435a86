"""A market of traders: rules, environment, view and rendering."""
