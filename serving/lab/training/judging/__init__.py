"""What a trained model is asked, to see what it can do: sums that it never saw, ordinary questions, tools and JSON."""
