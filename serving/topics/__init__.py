"""Which of Stratum's topics a prompt has: a sentence embedding that lies on this machine, and what was learnt on it.

`names` has the topics. `classifier` is the door: `Classifier.load()` and `classify(prompts)`; `service` is the same for
an event loop. `reading` turns a prompt into tokens, `encoder` those into one vector, `classifier` that into a topic.
`labelled` reads prompts with their topics, and `measure` says how good and fast it is on them. README.md is the card of
the weights; how they came about is in `lab.topic_training`.
"""
