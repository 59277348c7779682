"""Laws fail by what they say, never by how long a busy machine took to check them."""

from hypothesis import settings

settings.register_profile("device_model", deadline=None)
settings.load_profile("device_model")
