"""Who can share topics with whom: brokers, Java workers and Python stores of several versions, tried out for real."""
