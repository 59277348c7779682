"""What the commands say of the device model and of policies: tables, pictures, sentences."""
