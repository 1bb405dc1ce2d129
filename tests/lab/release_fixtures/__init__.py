"""What a release writes, recorded for the tests of later ones: ``python -m tests.lab.release_fixtures OUT``."""
