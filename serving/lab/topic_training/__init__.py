"""How the classifier of topics came about."""
