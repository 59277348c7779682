"""Which of Stratum's topics a prompt has: a sentence embedding that lies on this machine, and what was learnt on it.

`classifier` is the door: `Classifier.load()` and `classify(prompts)`; `service` is the same for an event loop.
`reading` turns a prompt into tokens, `encoder` those into one vector, and `classifier` that into a topic. The rest is
for making and measuring it: `labelled` reads prompts with their topics, `generate` makes more of them, `train` learns
the weights from both (`train_command`), and `measure` says how good and fast they are (`command`). README.md is their
card.
"""
