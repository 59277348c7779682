"""The text that the tiny bundled chat model is trained on: seeded dialogues in six topics, and what every machine has.

`corpus` is the door: `dialogue`, `documents` and `prompts`. A topic is one file of that name (`legal`, `maths`, ...) and
its words and facts one file in `facts/`. `knowledge` asks and answers from those facts in ways that all topics share,
`grammar` expands phrases, and `machine` reads the documentation and the licences that lie on this machine.
"""
