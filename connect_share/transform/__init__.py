"""Keys and values of records, rewritten for another key space; pure but for the counter of messages."""
