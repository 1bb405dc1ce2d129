"""PySpark jobs of connect-share."""
