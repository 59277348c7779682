"""The kinds of hardware: one file each, with a class `Hardware` that its TOML files load into. The file's name is the
kind's, with `_` for `-`."""
