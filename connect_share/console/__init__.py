"""The frame of command-line programs: how a command is declared and run, its options, what it prints and asks."""
