"""Topics of prompts, from Stratum's list: a sentence embedding on this machine, with a linear head trained on it.

`names` has the topics. `classifier` is the entrance: `Classifier.load()` and `classify(prompts)`; `service` offers it
to an event loop. `prompt_reader` turns a prompt into tokens, `encoder` tokens into one vector, `classifier` a vector
into a topic. `labelled_prompts` reads prompts with their topics, and `measure` tells accuracy and latency on them.
README.md is the card of the weights, which `lab.topic_training` makes.
"""
