"""The commands that train and measure the bundled models and classifiers: they run `serving.lab`."""
