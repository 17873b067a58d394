"""How an exercise that is not begun is known from one that fails."""

#: What the error of every stub says.
UNWRITTEN = "is yours to write"
