"""Tell whether a batch decodes plainly (AR) or speculates (SD): one policy a file, by its name."""
