"""The systems that can be emulated: one file each, with a class `Device`. The file's name is the system's."""
