"""Who is taken on, for whom, and what those are told who are not."""
