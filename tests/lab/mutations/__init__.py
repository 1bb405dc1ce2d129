"""Small changes of meaning in the pure core, each of which a unit test has to notice: ``make mutate``."""
