"""What is minimised: rows of data, penalties, linear models, several classes, components given as functions."""
