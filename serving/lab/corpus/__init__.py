"""The text that the bundled chat model is trained on: seeded dialogues in six topics and about daily life.

`corpus` is the door: `dialogue`, `documents`, `conversations` and `prompts`. A topic is one file of that name (`legal`,
`maths`, ...), and its words and facts are one file in `facts/`. `knowledge` holds those facts, `moves` ask and answer
from them in ways that all topics share, `grammar` expands phrases. Problems come with computed answers: `arithmetic`,
`maths`, `puzzles`, `members`, `logic`. `texts` are no dialogues: stories, articles, letters.
`world` asks tables, `unknown` asks what nobody here can answer. `agents` has chats with tools
(`tool_calls`) and answers as JSON (`structured`, `forms`), `conversations` come back to what was told first.
"""
