"""Several runs that differ in numbers only, trained side by side as one program."""
