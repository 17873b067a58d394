"""The checks of lesson 13: a prediction, its misconceptions, and the files to hand in."""
