"""Reports on the device model and on policies: tables, pictures, sentences."""
