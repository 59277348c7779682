"""The draft schemes: one file each, with a class `Scheme`. The file's name is the scheme's."""
