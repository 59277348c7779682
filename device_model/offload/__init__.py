"""A GPU whose memory has room for some of a model's experts, and its host's memory, which has all."""
