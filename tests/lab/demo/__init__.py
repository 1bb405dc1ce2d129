"""The whole move on real input: Java workers, migrator on Spark, Python stores, Java workers again."""
