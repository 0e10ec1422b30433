"""Pages for a browser, each one HTML file that needs no network: the report and the explorer."""
