"""The text that the tiny bundled chat model is trained on: seeded dialogues in six topics, and texts of the machine.

`corpus` is the door: `dialogue`, `documents` and `prompts`. A topic is one file of that name (`legal`, `maths`, ...),
and its words and facts are one file in `facts/`. `knowledge` holds those facts, `moves` ask and answer from them in
ways that all topics share, `grammar` expands phrases, and `machine` reads the documentation and the licences that lie
on this machine. Problems come with computed answers: `sums`, `maths`, `puzzles`, `logic`.
"""
