"""The console command ``connect-share-migrate``."""
