"""Plain texts, which are no dialogues: stories, articles, letters, diaries, recipes, lists of steps."""
